package onnx

import (
	"fmt"
	"strings"

	"github.com/carve-dev/carve/graph"
)

// opsets are the versions of operator sets that a graph or function imports, by domain, and the versions of the operators
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

// admits reports an operator that is known, and that the imported version of its domain does not have yet. A vendor's operator that has one version needs no
// import, which could name no other: there are writers that leave it out. The domain is as if it were imported then.
func (o *opsets) admits(p *opProto) error {
	if _, ok := o.known[p]; ok {
		return nil
	}
	list := graph.SchemaVersions(p.domain, p.name)
	version, imported := o.versions[p.domain]
	switch {
	case len(list) == 0:
		return nil
	case !imported && vendorsOnly(list):
		o.versions[p.domain] = list[0].Since
	case !imported:
		return fmt.Errorf("%w: the model imports no version of domain %q", ErrUnsupportedOpset, p.domain)
	case list[0].Since > version:
		return fmt.Errorf("%w: %s is an operator since version %d, the model imports %d", ErrUnsupportedOpset, p.name, list[0].Since, version)
	}
	return nil
}

// vendorsOnly reports whether these versions of an operator are the only one of a domain that is not the standard's own.
func vendorsOnly(list []*graph.Schema) bool {
	domain := list[0].Domain
	return len(list) == 1 && domain != "" && domain != "ai.onnx" && !strings.HasPrefix(domain, "ai.onnx.")
}

// op returns the operator in the version that the imported operator set of its domain has. Where there is none, Since is the
// number of that operator set, so that no other version is taken for it.
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
