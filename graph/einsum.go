package graph

import (
	"fmt"
	"slices"
	"strings"
)

// EinsumTerm is one operand's part of an Einsum equation: letters before and behind an ellipsis, or only before.
type EinsumTerm struct {
	Before, After string
	Ellipsis      bool
}

// String returns the term as in an equation.
func (t EinsumTerm) String() string {
	if t.Ellipsis {
		return t.Before + "..." + t.After
	}
	return t.Before
}

// Einsum is an equation of the operator Einsum with its output term made explicit.
type Einsum struct {
	Inputs []EinsumTerm
	Output EinsumTerm
}

// ParseEinsum reads an equation such as "bij,bjk->bik" or "...ii->...i". Without "->", the output has the ellipsis, if
// there is one, and then the letters that occur once, in order. The error wraps ErrAttr.
func ParseEinsum(s string) (Einsum, error) {
	text := strings.ReplaceAll(s, " ", "")
	left, right, explicit := strings.Cut(text, "->")
	var e Einsum
	var count [128]int
	ellipsis := false
	for _, part := range strings.Split(left, ",") {
		t, err := parseEinsumTerm(part)
		if err != nil {
			return Einsum{}, fmt.Errorf("%w in %q", err, capped(s))
		}
		e.Inputs = append(e.Inputs, t)
		ellipsis = ellipsis || t.Ellipsis
		for _, l := range []byte(t.Before + t.After) {
			count[l]++
		}
	}
	if !explicit {
		var letters []byte
		for l, n := range count {
			if n == 1 {
				letters = append(letters, byte(l))
			}
		}
		slices.Sort(letters)
		e.Output = EinsumTerm{Before: string(letters)}
		if ellipsis {
			e.Output = EinsumTerm{After: string(letters), Ellipsis: true}
		}
		return e, nil
	}
	t, err := parseEinsumTerm(right)
	if err != nil {
		return Einsum{}, fmt.Errorf("%w in %q", err, capped(s))
	}
	var used [128]bool
	for _, l := range []byte(t.Before + t.After) {
		if count[l] == 0 || used[l] {
			return Einsum{}, fmt.Errorf("%w: output letter %q of %q is in no input, or twice in the output", ErrAttr, string(l), capped(s))
		}
		used[l] = true
	}
	e.Output = t
	return e, nil
}

func parseEinsumTerm(s string) (EinsumTerm, error) {
	var t EinsumTerm
	t.Before, t.After, t.Ellipsis = strings.Cut(s, "...")
	for _, l := range []byte(t.Before + t.After) {
		if (l < 'a' || l > 'z') && (l < 'A' || l > 'Z') {
			return t, fmt.Errorf("%w: subscript %q", ErrAttr, string(l))
		}
	}
	return t, nil
}
