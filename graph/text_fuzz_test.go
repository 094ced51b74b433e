package graph_test

import (
	"context"
	"testing"

	"github.com/carve-dev/carve/graph"
)

// FuzzParse: whatever parses prints, and the print parses to the same print. What Verify accepts it accepts again after
// Clone, and after Simplify.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"graph {\n}\n", verified, extractable, statements(13, layerNorm), statements(13, gelu), statements(13, hardSwish),
		statements(20, "  input %x: f16[2]\n  const %w = f16[]{2}\n  %a = Mul(%x, %w) \"a\"\n  %b = Neg(%a) \"b\"\n  output %a, %b\n"),
		"graph \"a\" {\n  opset 13\n  meta \"k\" = \"v\"\n  input %x: f32[N,min(N,3)] @host:NCHW16c\n  const %c = f8e5m2[2]{1, 0x7d}\n  %y: f32[?1] dims [N] = d::Op/3(%x, _ | %x; a=[1.0], t=i64[1]{2}) \"l\" from(\"p\") on \"b\" as \"s\" ports(@host:NCHW, @host:NCHW -> $0) {\n    body: graph {\n      capture %x\n      output %x\n    }\n  }\n  output %y, %x\n}\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		g, err := graph.Parse(text)
		if err != nil {
			return
		}
		first := g.String()
		all := printAll(t, g)
		h, err := graph.Parse(all)
		if err != nil {
			t.Fatalf("%v\n%s", err, all)
		}
		if again := h.String(); again != first {
			t.Fatalf("printed\n%s\nthen\n%s", first, again)
		}
		if graph.Verify(g) != nil {
			return
		}
		c, err := g.Clone()
		if err != nil {
			t.Fatal(err)
		}
		if err := graph.Verify(c); err != nil {
			t.Fatal(err)
		}
		if graph.InferGraph(c) != nil || graph.Verify(c) != nil {
			return
		}
		before := c.String()
		if _, err := graph.Simplify(context.Background(), c, &graph.SimplifyOptions{Rank: floatsAlone}); err != nil {
			return
		}
		if err := graph.Verify(c); err != nil {
			t.Fatalf("%v: simplified\n%s\nto\n%s", err, before, c)
		}
	})
}

func printAll(t *testing.T, g *graph.Graph) string {
	var sb stringWriter
	if err := graph.Print(&sb, g, &graph.PrintOptions{MaxElements: -1}); err != nil {
		t.Fatal(err)
	}
	return string(sb)
}

type stringWriter []byte

func (s *stringWriter) Write(b []byte) (int, error) { *s = append(*s, b...); return len(b), nil }
