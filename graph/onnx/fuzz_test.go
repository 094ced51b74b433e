package onnx_test

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/onnx"
)

func FuzzParse(f *testing.F) {
	f.Add(relu(initializer(vector("w", 1, 2))))
	f.Add(bomb(3))
	f.Add(model(join(
		gnode(node("If", "i", names("c"), names("y"),
			graphAttr("then_branch", join(gnode(node("Add", "a", names("x", "w"), names("t"))), output("t"))),
			graphAttr("else_branch", output("x")))),
		initializer(vector("w", 1)), input("c", boolean()), input("x", f32("N", "2*N")), output("y"))))
	f.Add(model(join(gnode(call("f", node("F", "n", names("x"), names("y"), graphAttr("g", output("x"))))), input("x", f32(1)), output("y")),
		opset("f", 1), function("F", names("a"), names("b"), msg{}.str(6, "g"), fnode(node("If", "i", names("a"), names("b"), refAttr("then_branch", "g", 5))))))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := onnx.Parse(context.Background(), b, &onnx.Options{MaxNodes: 1 << 12, MaxInlined: 1 << 10, MaxDense: 1 << 16})
		if err != nil {
			var own *onnx.Error
			if !errors.As(err, &own) {
				t.Fatalf("untyped: %v", err)
			}
			return
		}
		if err := graph.Verify(m.Graph); err != nil {
			var ve *graph.VerifyError
			if !errors.As(err, &ve) || ve.Invariant != graph.InvSchema && ve.Invariant != graph.InvRegions {
				t.Fatal(err) // what the model says of its operators may be wrong, the structure may not
			}
			return
		}
		var first bytes.Buffer
		if err := onnx.Write(context.Background(), &first, nil, m, nil); err != nil {
			return // mixed operator sets
		}
		again, err := onnx.Parse(context.Background(), first.Bytes(), nil)
		if err != nil {
			t.Fatalf("written and not read: %v\n%s", err, m.Graph)
		}
		if err := graph.Verify(again.Graph); err != nil {
			t.Fatal(err)
		}
		if a, b := m.Graph.NumNodes(), again.Graph.NumNodes(); a != b {
			t.Fatalf("%d nodes became %d", a, b)
		}
	})
}
