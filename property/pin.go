package property

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/carve-dev/carve/graph"
)

// Pin binds nodes to a backend, or keeps them away from it. Of several pins the first that matches a node counts: where that
// keeps the node away from a backend, those behind it that do so too count as well, and none binds it.
type Pin struct {
	Node string // a name in the model, or a glob (see MatchName); "" matches all
	Op   string // an operator such as "Conv" or "com.microsoft.Gelu"; "" matches all
	// Backend is a registry name, on whichever of the backend's devices, or one device of it, "cuda:1" (see CutDevice).
	Backend string
	Exclude bool // keep the nodes away from Backend instead of binding them to it
}

// Allowed returns nil where pins let a backend have n, else the reason why not.
func Allowed(pins []Pin, n *graph.Node, backend string) *Reason {
	excluded := false // a pin before keeps n away from another backend
	for i := range pins {
		p := &pins[i]
		if excluded && !p.Exclude || !p.Matches(n) {
			continue
		}
		switch {
		case p.Exclude && p.speaksOf(backend):
			return Because(Pinned, "the user excluded it from %s", backend)
		case p.Exclude:
			excluded = true
		case p.speaksOf(backend):
			return nil
		default:
			return Because(Pinned, "the user pinned it to %s", p.Backend)
		}
	}
	return nil
}

// speaksOf reports whether the pin's backend is this one, or this one on one of its devices.
func (p Pin) speaksOf(backend string) bool {
	if p.Backend == backend {
		return true
	}
	name, index, ok := CutDevice(backend)
	if ok && p.Backend == name {
		return true
	}
	first, at, named := CutDevice(p.Backend)
	return named && first == name && at == index
}

// CutDevice splits the name of a backend on one of its devices, "cuda:1", into the backend's name and the index among its
// devices. named is false where no index is given: the name is then the backend's, and means the first of them.
func CutDevice(name string) (backend string, index int, named bool) {
	base, digits, found := strings.Cut(name, ":")
	n, err := strconv.ParseUint(digits, 10, 16)
	if !found || err != nil || base == "" || strconv.FormatUint(n, 10) != digits {
		return name, 0, false
	}
	return base, int(n), true
}

// Matches reports whether the pin speaks of n: of its operator, and of one of the model's nodes that it comes from.
func (p Pin) Matches(n *graph.Node) bool {
	if p.Op != "" && p.Op != n.Op.String() {
		return false
	}
	if p.Node == "" {
		return true
	}
	for _, name := range n.Provenance() {
		if MatchName(p.Node, name) {
			return true
		}
	}
	return false
}

// MatchName reports whether a name matches a glob. A name matches itself. In a glob, * stands for any run of characters
// other than '/', ** for any run of characters, and ? for one character other than '/'; everything else, brackets and
// backslashes included, stands for itself. The cost is at most len(glob)·len(name).
func MatchName(glob, name string) bool {
	if glob == name {
		return true
	}
	type point struct{ g, n int }
	var one, two point // where to go on after the latest * and the latest **; g 0 means none
	at := point{}
	for {
		switch {
		case at.g+1 < len(glob) && glob[at.g] == '*' && glob[at.g+1] == '*':
			at.g += 2
			one, two = point{}, at
			continue
		case at.g < len(glob) && glob[at.g] == '*':
			at.g++
			one = at
			continue
		case at.n == len(name):
			return at.g == len(glob)
		case at.g < len(glob) && glob[at.g] == '?' && name[at.n] != '/':
			_, size := utf8.DecodeRuneInString(name[at.n:])
			at.g++
			at.n += size
			continue
		case at.g < len(glob) && glob[at.g] == name[at.n]:
			at.g++
			at.n++
			continue
		}
		switch {
		case one.g > 0 && name[one.n] != '/':
			one.n++
			at = one
		case two.g > 0 && two.n < len(name):
			two.n++
			one, at = point{}, two
		default:
			return false
		}
	}
}
