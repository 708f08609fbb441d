package tokenize

import (
	"encoding/binary"
	"fmt"
	"strings"
	"unicode/utf8"
)

// charsmap is SentencePiece's compiled normalisation table: a double-array trie
// of the strings to be replaced, and the replacements. The layout:
//
//	u32 length of the trie in bytes | trie, u32 units | replacements, each ended by a zero byte
//
// A unit of the trie holds the label of the byte that leads to it (bits 0–7),
// whether a string ends there (bit 8), and by how far its children are away
// (bits 10–30, in units of 256 if bit 9 is set). Where a string ends, the unit
// found at that distance holds the place of its replacement instead.
// (Aoe 1989, "An Efficient Digital Search Algorithm by Using a Double-Array Structure".)
type charsmap struct {
	units []uint32
	texts string
}

func parseCharsmap(blob []byte) (*charsmap, error) {
	if len(blob) < 4 {
		return nil, fmt.Errorf("charsmap of %d bytes, want at least 4", len(blob))
	}
	size := binary.LittleEndian.Uint32(blob)
	blob = blob[4:]
	if size == 0 || size%4 != 0 || uint64(size) >= uint64(len(blob)) {
		return nil, fmt.Errorf("charsmap: trie of %d bytes in %d, want a multiple of 4 and something after it", size, len(blob))
	}
	c := &charsmap{units: make([]uint32, size/4), texts: string(blob[size:])}
	for i := range c.units {
		c.units[i] = binary.LittleEndian.Uint32(blob[4*i:])
	}
	if c.texts[len(c.texts)-1] != 0 {
		return nil, fmt.Errorf("charsmap: the last replacement has no end")
	}
	if !utf8.ValidString(c.texts) {
		return nil, fmt.Errorf("charsmap: replacements are not valid UTF-8")
	}
	return c, nil
}

// lookup returns the replacement of a string that s starts with and that
// string's length, which is 0 if there is none: the longest, or the shortest.
func (c *charsmap) lookup(s string, longest bool) (with string, n int) {
	if len(c.units) == 0 {
		return "", 0
	}
	at := offsetOf(c.units[0])
	for i := 0; i < len(s) && s[i] != 0; i++ {
		at ^= uint32(s[i])
		if uint64(at) >= uint64(len(c.units)) {
			break
		}
		unit := c.units[at]
		if unit&(1<<31|0xFF) != uint32(s[i]) {
			break
		}
		at ^= offsetOf(unit)
		if unit>>8&1 == 0 || uint64(at) >= uint64(len(c.units)) {
			continue
		}
		if value := c.units[at] & (1<<31 - 1); uint64(value) < uint64(len(c.texts)) {
			with, n = c.texts[value:], i+1
			if !longest {
				break
			}
		}
	}
	if n > 0 {
		with = with[:strings.IndexByte(with, 0)]
	}
	return with, n
}

func offsetOf(unit uint32) uint32 { return unit >> 10 << (unit & (1 << 9) >> 6) }
