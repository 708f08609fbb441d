package tokenize

import (
	"encoding/json"
	"fmt"
)

// The stages of a tokenizer.json that come after the model.

func buildDecoder(raw json.RawMessage) ([]decoder, error) {
	kind, err := stageType(raw)
	if err != nil || kind == "" {
		return nil, err
	}
	s := struct {
		Decoders       []json.RawMessage `json:"decoders"`
		Pattern        json.RawMessage   `json:"pattern"`
		Content        string            `json:"content"`
		Start          int               `json:"start"`
		Stop           int               `json:"stop"`
		Prefix         string            `json:"prefix"`
		Suffix         string            `json:"suffix"`
		Cleanup        bool              `json:"cleanup"`
		Replacement    string            `json:"replacement"`
		AddPrefixSpace *bool             `json:"add_prefix_space"`
		PrependScheme  string            `json:"prepend_scheme"`
		Pad            string            `json:"pad_token"`
		Delimiter      string            `json:"word_delimiter_token"`
	}{Prefix: "##", Suffix: "</w>", Cleanup: true, Replacement: "▁", PrependScheme: "always"}
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, fmt.Errorf("%s: %w", kind, err)
	}
	switch kind {
	case "Sequence":
		var ds []decoder
		for _, r := range s.Decoders {
			d, err := buildDecoder(r)
			if err != nil {
				return nil, err
			}
			ds = append(ds, d...)
		}
		return ds, nil
	case "ByteLevel":
		return []decoder{decoderFunc(decodeByteLevel)}, nil
	case "ByteFallback":
		return []decoder{decodeByteFallback{}}, nil
	case "Fuse":
		return []decoder{decoderFunc(decodeFuse)}, nil
	case "Replace":
		var hp hfPattern
		if err := json.Unmarshal(s.Pattern, &hp); err != nil {
			return nil, fmt.Errorf("%s: %w", kind, err)
		}
		p, err := hp.compile()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", kind, err)
		}
		return []decoder{decodeReplace{p, s.Content}}, nil
	case "Strip":
		if s.Content == "" {
			return nil, fmt.Errorf("%s: no character to strip", kind)
		}
		return []decoder{decodeStrip{s.Content, s.Start, s.Stop}}, nil
	case "Metaspace":
		prefixed := s.PrependScheme != "never" && (s.AddPrefixSpace == nil || *s.AddPrefixSpace)
		return []decoder{decodeMetaspace{s.Replacement, prefixed}}, nil
	case "WordPiece":
		return []decoder{decodeWordPiece{s.Prefix, s.Cleanup}}, nil
	case "BPEDecoder":
		return []decoder{decodeSuffix(s.Suffix)}, nil
	case "CTC":
		return []decoder{decodeCTC{s.Pad, s.Delimiter, s.Cleanup}}, nil
	}
	return nil, fmt.Errorf("unknown type %q", kind)
}

// hfMarker is a named token and its id, written ["[SEP]", 102].
type hfMarker struct {
	token string
	id    int
}

func (m *hfMarker) UnmarshalJSON(b []byte) error {
	return json.Unmarshal(b, &[]any{&m.token, &m.id})
}

func buildPost(raw json.RawMessage, t *Tokenizer) ([]postProcessor, error) {
	kind, err := stageType(raw)
	if err != nil || kind == "" {
		return nil, err
	}
	s := struct {
		Processors     []json.RawMessage `json:"processors"`
		AddPrefixSpace bool              `json:"add_prefix_space"`
		TrimOffsets    bool              `json:"trim_offsets"`
		Cls            hfMarker          `json:"cls"`
		Sep            hfMarker          `json:"sep"`
		Single         []struct {
			SpecialToken *struct {
				ID string `json:"id"`
			}
			Sequence *struct {
				ID string `json:"id"`
			}
		} `json:"single"`
		SpecialTokens map[string]struct {
			IDs []int `json:"ids"`
		} `json:"special_tokens"`
	}{AddPrefixSpace: true, TrimOffsets: true}
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, fmt.Errorf("%s: %w", kind, err)
	}
	switch kind {
	case "Sequence":
		var ps []postProcessor
		for _, r := range s.Processors {
			p, err := buildPost(r, t)
			if err != nil {
				return nil, err
			}
			ps = append(ps, p...)
		}
		return ps, nil
	case "ByteLevel":
		if !s.TrimOffsets {
			return nil, nil
		}
		return []postProcessor{trimSpace{s.AddPrefixSpace}}, nil
	case "BertProcessing":
		return []postProcessor{template{[]int{s.Cls.id}, []int{s.Sep.id}}}, nil
	case "RobertaProcessing":
		ps := []postProcessor{template{[]int{s.Cls.id}, []int{s.Sep.id}}}
		if s.TrimOffsets {
			ps = append([]postProcessor{trimSpace{s.AddPrefixSpace}}, ps...)
		}
		return ps, nil
	case "TemplateProcessing":
		var p template
		seen := false
		for _, piece := range s.Single {
			switch {
			case piece.SpecialToken != nil:
				special, ok := s.SpecialTokens[piece.SpecialToken.ID]
				if !ok {
					return nil, fmt.Errorf("%s: special token %q is not defined", kind, piece.SpecialToken.ID)
				}
				if seen {
					p.after = append(p.after, special.IDs...)
				} else {
					p.before = append(p.before, special.IDs...)
				}
			case piece.Sequence != nil && piece.Sequence.ID == "A" && !seen:
				seen = true
			default:
				return nil, fmt.Errorf("%s: want special tokens around one sequence A", kind)
			}
		}
		return []postProcessor{p}, nil
	}
	return nil, fmt.Errorf("unknown type %q", kind)
}
