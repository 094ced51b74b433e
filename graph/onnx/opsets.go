package onnx

import "github.com/carve-dev/carve/graph"

// opsets are the versions of operator sets that a graph or function imports, by domain, and the forms of the operators
// that they mean.
type opsets struct {
	versions map[string]int
	known    map[*opProto]graph.Op
}

func newOpsets(versions map[string]int) *opsets {
	return &opsets{versions: versions, known: map[*opProto]graph.Op{}}
}

func (o *opsets) has(domain string) bool {
	_, ok := o.versions[domain]
	return ok
}

// op returns the operator in the form that the imported version of its domain has. Where there is none, Since is that
// version, so that no other form is taken for it.
func (o *opsets) op(p *opProto) graph.Op {
	if op, ok := o.known[p]; ok {
		return op
	}
	version, ok := o.versions[p.domain]
	if !ok {
		version = 1 << 30
	}
	op := graph.Op{Domain: p.domain, Name: p.name, Since: version}
	if s := graph.LookupSchema(p.domain, p.name, version); s != nil {
		op.Since = s.Since
	}
	o.known[p] = op
	return op
}
