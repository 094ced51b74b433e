package partition

import (
	"slices"

	"github.com/carve-dev/carve/graph"
)

// signatureLists keeps one copy of lists of signatures that are equal: most nodes of a large graph have one of a few. Nobody
// changes a list that is kept here, nor one that comes of it.
type signatureLists struct {
	kinds map[listKind][]*signatureList
	kept  map[*graph.Signature]*signatureList // by the first signature of the list, and of what it resolves to
}

// listKind is what lists that are equal agree in.
type listKind struct {
	name                    string // of the first signature
	length, inputs, outputs int
}

// signatureList is a list, and what it resolves to.
type signatureList struct {
	sigs, resolved []graph.Signature
}

// mostOfKind bounds the lists that one is compared with: those that differ in what they cost are many.
const mostOfKind = 8

// share returns the list that is kept for one; the list itself where it is the first, or there are too many like it.
func (x *signatureLists) share(sigs []graph.Signature) []graph.Signature {
	if len(sigs) == 0 {
		return sigs
	}
	kind := listKind{sigs[0].Name, len(sigs), len(sigs[0].Inputs), len(sigs[0].Outputs)}
	same := x.kinds[kind]
	for _, l := range same {
		if slices.EqualFunc(l.sigs, sigs, equalSignatures) {
			return l.sigs
		}
	}
	if len(same) == mostOfKind {
		return sigs
	}
	if x.kinds == nil {
		x.kinds, x.kept = map[listKind][]*signatureList{}, map[*graph.Signature]*signatureList{}
	}
	l := &signatureList{sigs: sigs}
	x.kinds[kind], x.kept[&sigs[0]] = append(same, l), l
	return sigs
}

func equalSignatures(a, b graph.Signature) bool {
	return a.Name == b.Name && a.Extra == b.Extra && slices.Equal(a.Inputs, b.Inputs) && slices.Equal(a.Outputs, b.Outputs) &&
		slices.EqualFunc(a.Vars, b.Vars, slices.Equal)
}

// resolve is the function of that name, which is called once for a list that is kept.
func (x *signatureLists) resolve(sigs []graph.Signature) []graph.Signature {
	if !x.keeps(sigs) {
		return resolve(sigs)
	}
	l := x.kept[&sigs[0]]
	if l.resolved == nil {
		l.resolved = resolve(sigs)
		x.kept[&l.resolved[0]] = l
	}
	return l.resolved
}

// keeps reports whether a list is one that is kept, or what such a one resolves to.
func (x *signatureLists) keeps(sigs []graph.Signature) bool {
	return len(sigs) > 0 && x.kept[&sigs[0]] != nil
}
