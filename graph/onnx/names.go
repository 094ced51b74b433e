package onnx

import "strconv"

// names gives out names, each once.
type names struct {
	taken map[string]bool
	next  map[string]int // the number to try first, by name
}

func newNames() *names { return &names{taken: map[string]bool{}, next: map[string]int{}} }

// unique returns s, or s with the first number behind it that makes it new, and takes it.
func (n *names) unique(s string) string {
	if !n.taken[s] {
		n.taken[s] = true
		return s
	}
	for i := max(n.next[s], 2); ; i++ {
		if t := s + "_" + strconv.Itoa(i); !n.taken[t] {
			n.next[s] = i + 1
			n.taken[t] = true
			return t
		}
	}
}
