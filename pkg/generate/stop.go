package generate

import "strings"

// stopper lets text through except what could still become a stop string.
type stopper struct {
	stops []string
	held  string
}

// push adds text and returns what may be shown. stopped is the stop string that has been found, "" for none: text from it on
// never comes out. Of several, the one that is complete first counts, and of those the longest; so it does not matter how
// the text was cut into tokens.
func (s *stopper) push(text string) (show, stopped string) {
	s.held += text
	at, end := -1, -1
	for _, stop := range s.stops {
		if i := strings.Index(s.held, stop); i >= 0 && (at < 0 || i+len(stop) < end || i+len(stop) == end && i < at) {
			at, end, stopped = i, i+len(stop), stop
		}
	}
	if at >= 0 {
		show, s.held = s.held[:at], ""
		return show, stopped
	}
	keep := 0
	for _, stop := range s.stops {
		for n := min(len(stop)-1, len(s.held)); n > keep; n-- {
			if strings.HasSuffix(s.held, stop[:n]) {
				keep = n
				break
			}
		}
	}
	show, s.held = s.held[:len(s.held)-keep], s.held[len(s.held)-keep:]
	return show, ""
}

// flush returns what was held back: no stop string can come any more.
func (s *stopper) flush() string {
	out := s.held
	s.held = ""
	return out
}
