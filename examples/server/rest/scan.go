package rest

import (
	"bytes"
	"encoding/json"
	"strconv"

	"github.com/carve-dev/carve/examples/server/oip"
)

// scanner walks through the text of one value in JSON that json.Valid has found to be such. What the values of a request are comes as often
// as requests do, and reflection takes longer for that than a small model.
type scanner struct {
	text []byte
	at   int
}

// next skips white space and returns the byte that follows, 0 at the end.
func (s *scanner) next() byte {
	for ; s.at < len(s.text); s.at++ {
		switch c := s.text[s.at]; c {
		case ' ', '\t', '\n', '\r':
		default:
			return c
		}
	}
	return 0
}

// closes passes a comma, or the end of what it is in, and reports whether it was the latter.
func (s *scanner) closes(end byte) bool {
	c := s.next()
	if c == ',' || c == end {
		s.at++
	}
	return c != ','
}

// raw returns the text of the next value.
func (s *scanner) raw() []byte {
	s.next()
	begin := s.at
	for depth := 0; s.at < len(s.text); {
		switch s.text[s.at] {
		case '"':
			s.passString()
			if depth == 0 {
				return s.text[begin:s.at]
			}
			continue
		case '[', '{':
			depth++
		case ']', '}':
			if depth == 0 { // of what the value is in
				return s.text[begin:s.at]
			}
			if depth--; depth == 0 {
				s.at++
				return s.text[begin:s.at]
			}
		case ',', ' ', '\t', '\n', '\r':
			if depth == 0 {
				return s.text[begin:s.at]
			}
		}
		s.at++
	}
	return s.text[begin:]
}

// passString passes a string.
func (s *scanner) passString() {
	for s.at++; s.at < len(s.text) && s.text[s.at] != '"'; s.at++ {
		if s.text[s.at] == '\\' {
			s.at++
		}
	}
	s.at = min(s.at+1, len(s.text))
}

// null passes null where that is next.
func (s *scanner) null() bool {
	if s.next() != 'n' {
		return false
	}
	s.raw()
	return true
}

// object calls member for each name, which reads the value. What null stands for has no members.
func (s *scanner) object(what string, member func(name string) error) error {
	if s.null() {
		return nil
	}
	if s.next() != '{' {
		return mismatch(what, "object")
	}
	s.at++
	if s.next() == '}' {
		s.at++
		return nil
	}
	for {
		name, err := s.str(what)
		if err != nil {
			return err
		}
		s.next()
		s.at++ // the colon
		if err := member(name); err != nil || s.closes('}') {
			return err
		}
	}
}

// array calls element for each element, which reads it. What null stands for has none.
func (s *scanner) array(what string, element func() error) error {
	if s.null() {
		return nil
	}
	if s.next() != '[' {
		return mismatch(what, "array")
	}
	s.at++
	if s.next() == ']' {
		s.at++
		return nil
	}
	for {
		if err := element(); err != nil || s.closes(']') {
			return err
		}
	}
}

// str reads a string; null is "".
func (s *scanner) str(what string) (string, error) {
	if s.null() {
		return "", nil
	}
	if s.next() != '"' {
		return "", mismatch(what, "string")
	}
	begin := s.at
	s.passString()
	quoted := s.text[begin:s.at]
	if plain(quoted[1 : len(quoted)-1]) {
		return string(quoted[1 : len(quoted)-1]), nil
	}
	var out string
	err := json.Unmarshal(quoted, &out)
	return out, err
}

// plain reports whether a string stands for itself.
func plain(b []byte) bool {
	for _, c := range b {
		if c == '\\' || c >= 0x80 {
			return false
		}
	}
	return true
}

// dims reads a shape; null is nil.
func (s *scanner) dims(what string) (shape []int64, err error) {
	if s.null() {
		return nil, nil
	}
	shape = make([]int64, 0, 4)
	err = s.array(what, func() error {
		n, err := strconv.ParseInt(string(s.raw()), 10, 64)
		if shape = append(shape, n); err != nil {
			return mismatch(what, "array of whole numbers")
		}
		return nil
	})
	return shape, err
}

// parameter reads a parameter's value: bool, string, int64, uint64 or float64.
func (s *scanner) parameter() (any, error) {
	switch s.next() {
	case '"':
		return s.str("parameter")
	case '{', '[', 'n':
		return nil, oip.Errorf(oip.InvalidArgument, "a parameter is neither string, number nor bool")
	}
	raw := s.raw()
	switch {
	case bytes.Equal(raw, []byte("true")):
		return true, nil
	case bytes.Equal(raw, []byte("false")):
		return false, nil
	}
	text := string(raw)
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n, nil
	}
	if n, err := strconv.ParseUint(text, 10, 64); err == nil {
		return n, nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return nil, oip.Errorf(oip.InvalidArgument, "a parameter is %.40s, which is too large", text)
	}
	return f, nil
}

// mismatch is an error of a value of another kind than is wanted.
func mismatch(what, kind string) error {
	return oip.Errorf(oip.InvalidArgument, "failed to parse the request JSON: %s is no %s", what, kind)
}
