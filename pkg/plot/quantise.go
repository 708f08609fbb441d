package plot

import (
	"cmp"
	"image"
	"image/color"
	"slices"
)

// paletted turns a picture into one of at most 256 colours, a third of the size in a notebook: the most
// frequent shades as they are, the others, along the edges of text, as the nearest of those.
func paletted(src *image.RGBA) *image.Paletted {
	const keep = 0xfc // shades that no eye tells apart count as one, the first that was seen
	type shade struct {
		c color.RGBA
		n int
	}
	seen := make(map[uint32]*shade)
	key := func(p []uint8) uint32 {
		return uint32(p[0]&keep)<<16 | uint32(p[1]&keep)<<8 | uint32(p[2]&keep)
	}
	var last uint32
	var s *shade
	for i := 0; i < len(src.Pix); i += 4 {
		p := src.Pix[i : i+4 : i+4]
		if k := key(p); s == nil || k != last {
			last, s = k, seen[k]
			if s == nil {
				s = &shade{c: color.RGBA{p[0], p[1], p[2], 255}}
				seen[k] = s
			}
		}
		s.n++
	}
	shades := make([]*shade, 0, len(seen))
	for _, s := range seen {
		shades = append(shades, s)
	}
	slices.SortFunc(shades, func(a, b *shade) int { // most frequent first, always in the same order
		return cmp.Or(b.n-a.n, cmp.Compare(key([]uint8{a.c.R, a.c.G, a.c.B}), key([]uint8{b.c.R, b.c.G, b.c.B})))
	})
	shades = shades[:min(256, len(shades))]
	dst := image.NewPaletted(src.Bounds(), nil)
	index := make(map[uint32]uint8, len(seen))
	for i, s := range shades {
		dst.Palette = append(dst.Palette, s.c)
		index[key([]uint8{s.c.R, s.c.G, s.c.B})] = uint8(i)
	}
	for i := range dst.Pix {
		p := src.Pix[4*i : 4*i+4 : 4*i+4]
		k := key(p)
		at, ok := index[k]
		if !ok {
			at = uint8(dst.Palette.Index(color.RGBA{p[0], p[1], p[2], 255}))
			index[k] = at
		}
		dst.Pix[i] = at
	}
	return dst
}
