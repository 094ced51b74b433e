package batching

import "fmt"

// Sizes are the sizes that runs have.
type Sizes struct {
	Most        int   // rows; 0 means 16, or Bound
	Buckets     []int // nil means 1, 2, 4 and so on, up to Most
	Lengths     []int // nil means 8, 16, 32 and so on, up to LengthBound
	Bound       int   // the most rows that the model takes; 0 means any
	LengthBound int   // the longest that the model takes; 0 means any
	Plans       int   // how many lists of shapes plans are kept for
}

// Settle gives sizes their defaults.
func (s *Sizes) Settle() error {
	switch {
	case s.Most < 0:
		return fmt.Errorf("batches of %d rows", s.Most)
	case !ascending(s.Buckets) || !ascending(s.Lengths):
		return fmt.Errorf("buckets %v and lengths %v have to ascend from 1 or more", s.Buckets, s.Lengths)
	case len(s.Buckets) > 0 && s.Most > 0 && s.Most != s.Buckets[len(s.Buckets)-1]:
		return fmt.Errorf("buckets %v do not end with the largest batch, %d", s.Buckets, s.Most)
	}
	if len(s.Buckets) == 0 {
		if s.Most == 0 {
			if s.Most = 16; s.Bound > 0 {
				s.Most = min(s.Most, s.Bound)
			}
		}
		s.Buckets = doubling(1, s.Most)
	}
	if len(s.Lengths) == 0 {
		if s.Lengths = doubling(8, 512); s.LengthBound > 0 {
			s.Lengths = doubling(8, s.LengthBound)
		}
	}
	s.Most = s.Buckets[len(s.Buckets)-1]
	switch {
	case s.Bound > 0 && s.Most > s.Bound:
		return fmt.Errorf("batches of %d rows, where the model is compiled for %d at most", s.Most, s.Bound)
	case len(s.Buckets) > s.Plans:
		return fmt.Errorf("%d buckets, where plans are kept for %d (Options.MaxSpecializations)", len(s.Buckets), s.Plans)
	}
	return nil
}

// doubling returns least, twice that and so on, up to most, which is the last.
func doubling(least, most int) []int {
	var out []int
	for n := least; n > 0 && n < most; n *= 2 { // which ends below 0 where most is as large as can be
		out = append(out, n)
	}
	return append(out, most)
}

// ascending reports whether a list begins with 1 or more, and each number is larger than that before.
func ascending(list []int) bool {
	last := 0
	for _, n := range list {
		if n <= last {
			return false
		}
		last = n
	}
	return true
}
