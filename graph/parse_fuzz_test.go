package graph_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/carve-dev/carve/graph"
)

// FuzzParseSchema: the text of an operator, as a vendor's library gives it, is a schema whose nodes can be checked, or an error of
// its kind.
func FuzzParseSchema(f *testing.F) {
	f.Add("a.b", "Op", 1, "in X:T\nout Y:T\nat alpha:float=1\nty T=float")
	f.Add("a.b", "Op", 2, "in A:T B:tensor(int64)? C:T*\nout Y:T Z:T+\nat k:ints! s:strings=a,b t:tensor\nty T=float,double,int8")
	f.Add("", "Relu", 0, "")
	f.Fuzz(func(t *testing.T, domain, name string, since int, text string) {
		s, err := graph.ParseSchema(domain, name, since, text)
		if err != nil {
			if !errors.Is(err, graph.ErrSchema) && !errors.Is(err, graph.ErrOperator) {
				t.Fatal(err)
			}
			return
		}
		if s.Domain != domain || s.Name != name || s.Since != since {
			t.Fatalf("another operator: %v", s)
		}
		g := graph.New("")
		x := g.AddInput("x", graph.Type{})
		n := &graph.Node{Op: graph.Op{Domain: domain, Name: name, Since: since}, Schema: s, Inputs: []*graph.Value{x}}
		_ = graph.CheckNode(n) // may be refused
	})
}

// FuzzParseType: types, dims, formats and layouts that parse print as what parses to the same, but for symbols in quotes, which
// String shows without them where a line holds them.
func FuzzParseType(f *testing.F) {
	for _, text := range []string{"f32[N,min(N,3)]", "seq(f16[2])", "2*N+1", "@host:NCHW16c", "NCHW16c", "optional(seq(i64[?1]))", "map(str,f32)"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if x, err := graph.ParseType(text); err == nil && !strings.Contains(text, `"`) {
			if y, err := graph.ParseType(x.String()); err != nil || y.String() != x.String() {
				t.Fatalf("type %q prints %q, which is %v (%v)", text, x, y, err)
			}
		}
		if x, err := graph.ParseDim(text); err == nil && !strings.Contains(text, `"`) {
			if y, err := graph.ParseDim(x.String()); err != nil || y.String() != x.String() {
				t.Fatalf("dim %q prints %q, which is %v (%v)", text, x, y, err)
			}
		}
		if x, err := graph.ParseFormat(text); err == nil {
			if y, err := graph.ParseFormat(x.String()); err != nil || y.String() != x.String() {
				t.Fatalf("format %q prints %q, which is %v (%v)", text, x, y, err)
			}
		}
		if x, err := graph.ParseLayout(text); err == nil {
			if y, err := graph.ParseLayout(x.String()); err != nil || y.String() != x.String() {
				t.Fatalf("layout %q prints %q, which is %v (%v)", text, x, y, err)
			}
		}
	})
}
