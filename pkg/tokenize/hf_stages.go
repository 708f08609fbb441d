package tokenize

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"unicode"
)

// The stages of a tokenizer.json that come before the model.

// stageType returns the "type" of a stage, "" if there is no stage.
func stageType(raw json.RawMessage) (string, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return "", nil
	}
	var s struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(raw, &s); err != nil {
		return "", err
	}
	if s.Type == "" {
		return "", fmt.Errorf("a stage without a type: %.100s", raw)
	}
	return s.Type, nil
}

func buildNormalizer(raw json.RawMessage) (normalizer, error) {
	kind, err := stageType(raw)
	if err != nil || kind == "" {
		return nil, err
	}
	var s struct {
		Normalizers        []json.RawMessage `json:"normalizers"`
		Prepend            string            `json:"prepend"`
		Pattern            hfPattern         `json:"pattern"`
		Content            string            `json:"content"`
		StripLeft          bool              `json:"strip_left"`
		StripRight         bool              `json:"strip_right"`
		CleanText          bool              `json:"clean_text"`
		HandleChineseChars bool              `json:"handle_chinese_chars"`
		StripAccents       *bool             `json:"strip_accents"`
		Lowercase          bool              `json:"lowercase"`
		Charsmap           string            `json:"precompiled_charsmap"`
	}
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, fmt.Errorf("%s: %w", kind, err)
	}
	switch kind {
	case "Sequence":
		var ns normalizers
		for _, r := range s.Normalizers {
			n, err := buildNormalizer(r)
			if err != nil {
				return nil, err
			}
			if n != nil {
				ns = append(ns, n)
			}
		}
		if len(ns) == 0 {
			return nil, nil
		}
		return ns, nil
	case "NFC":
		return normalizerFunc(nfc), nil
	case "NFD":
		return normalizerFunc(nfd), nil
	case "NFKC":
		return normalizerFunc(nfkc), nil
	case "NFKD":
		return normalizerFunc(nfkd), nil
	case "Lowercase":
		return normalizerFunc(lowercase), nil
	case "StripAccents":
		return normalizerFunc(stripAccents), nil
	case "Nmt":
		return normalizerFunc(nmt), nil
	case "ByteLevel":
		return normalizerFunc(byteLevelText), nil
	case "Strip":
		return strip{s.StripLeft, s.StripRight}, nil
	case "Prepend":
		return prepend(s.Prepend), nil
	case "Replace":
		p, err := s.Pattern.compile()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", kind, err)
		}
		return replace{p, s.Content}, nil
	case "BertNormalizer":
		n := bertNormalizer{clean: s.CleanText, cjk: s.HandleChineseChars, accents: s.Lowercase, lower: s.Lowercase}
		if s.StripAccents != nil {
			n.accents = *s.StripAccents
		}
		return n, nil
	case "Precompiled":
		blob, err := base64.StdEncoding.DecodeString(s.Charsmap)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", kind, err)
		}
		table, err := parseCharsmap(blob)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", kind, err)
		}
		return precompiled{table}, nil
	}
	return nil, fmt.Errorf("unknown type %q", kind)
}

// hfPattern is {"String": "…"} or {"Regex": "…"}.
type hfPattern struct {
	String *string
	Regex  *string
}

func (p hfPattern) compile() (pattern, error) {
	switch {
	case p.String != nil:
		return literal(*p.String), nil
	case p.Regex != nil:
		return newPattern(*p.Regex)
	}
	return nil, fmt.Errorf("no pattern")
}

var behaviours = map[string]behaviour{
	"Isolated": isolated, "Removed": removed, "MergedWithPrevious": mergedBefore,
	"MergedWithNext": mergedAfter, "Contiguous": contiguous,
}

func buildPretokenizer(raw json.RawMessage) (pretokenizer, error) {
	kind, err := stageType(raw)
	if err != nil || kind == "" {
		return nil, err
	}
	s := struct {
		Pretokenizers    []json.RawMessage `json:"pretokenizers"`
		AddPrefixSpace   *bool             `json:"add_prefix_space"`
		UseRegex         bool              `json:"use_regex"`
		Pattern          json.RawMessage   `json:"pattern"`
		Behavior         string            `json:"behavior"`
		Invert           bool              `json:"invert"`
		IndividualDigits bool              `json:"individual_digits"`
		Replacement      string            `json:"replacement"`
		PrependScheme    string            `json:"prepend_scheme"`
		Split            bool              `json:"split"`
		Delimiter        string            `json:"delimiter"`
		Length           int               `json:"length"`
	}{UseRegex: true, Behavior: "Isolated", Replacement: "▁", PrependScheme: "always", Split: true, Length: 5}
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, fmt.Errorf("%s: %w", kind, err)
	}
	do, known := behaviours[s.Behavior]
	if !known {
		return nil, fmt.Errorf("%s: unknown behavior %q", kind, s.Behavior)
	}
	switch kind {
	case "Sequence":
		ps := pretokenizers{}
		for _, r := range s.Pretokenizers {
			p, err := buildPretokenizer(r)
			if err != nil {
				return nil, err
			}
			if p != nil {
				ps = append(ps, p)
			}
		}
		return ps, nil
	case "ByteLevel":
		return byteLevel{prefixSpace: s.AddPrefixSpace == nil || *s.AddPrefixSpace, cut: s.UseRegex}, nil
	case "Split":
		var hp hfPattern
		if err := json.Unmarshal(s.Pattern, &hp); err != nil {
			return nil, fmt.Errorf("%s: %w", kind, err)
		}
		p, err := hp.compile()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", kind, err)
		}
		return splitter{p, do, s.Invert}, nil
	case "Digits":
		if s.IndividualDigits {
			return splitter{pattern: scanner(scanDigits(1))}, nil
		}
		return splitter{pattern: scanner(scanDigits(1)), do: contiguous}, nil
	case "Punctuation":
		return splitter{pattern: charPattern(isPunctuation), do: do}, nil
	case "Whitespace":
		return splitter{scanner(scanWords), removed, true}, nil
	case "WhitespaceSplit":
		return splitter{pattern: charPattern(unicode.IsSpace), do: removed}, nil
	case "CharDelimiterSplit":
		return splitter{pattern: literal(s.Delimiter), do: removed}, nil
	case "BertPreTokenizer":
		return splitBERT, nil
	case "Metaspace":
		if s.AddPrefixSpace != nil && !*s.AddPrefixSpace {
			s.PrependScheme = "never"
		}
		switch s.PrependScheme {
		case "always", "first", "never":
		default:
			return nil, fmt.Errorf("%s: unknown prepend_scheme %q", kind, s.PrependScheme)
		}
		return metaspace{s.Replacement, s.PrependScheme, s.Split}, nil
	case "FixedLength":
		if s.Length < 1 {
			return nil, fmt.Errorf("%s: length %d, want at least 1", kind, s.Length)
		}
		return fixedLength(s.Length), nil
	}
	return nil, fmt.Errorf("unknown type %q", kind)
}
