package onnx_test

import (
	"context"
	"errors"
	"math"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/onnx"
	"github.com/carve-dev/carve/graph/tensor"
)

// msg builds a protobuf message field by field.
type msg []byte

func (m msg) int(num protowire.Number, vs ...int64) msg {
	for _, v := range vs {
		m = protowire.AppendVarint(protowire.AppendTag(m, num, protowire.VarintType), uint64(v))
	}
	return m
}

func (m msg) sub(num protowire.Number, subs ...msg) msg {
	for _, s := range subs {
		m = protowire.AppendBytes(protowire.AppendTag(m, num, protowire.BytesType), s)
	}
	return m
}

func (m msg) str(num protowire.Number, ss ...string) msg {
	for _, s := range ss {
		m = protowire.AppendString(protowire.AppendTag(m, num, protowire.BytesType), s)
	}
	return m
}

func join(parts ...msg) (out msg) {
	for _, p := range parts {
		out = append(out, p...)
	}
	return out
}

// model makes a ModelProto of IR version 10 with operator set 21.
func model(g msg, more ...msg) []byte {
	return append(msg{}.int(1, 10).sub(7, g).sub(8, msg{}.int(2, 21)), join(more...)...)
}

func opset(domain string, version int64) msg {
	return msg{}.sub(8, msg{}.str(1, domain).int(2, version))
}

// function is one of the domain "f".
func function(name string, in, out []string, parts ...msg) msg {
	f := msg{}.str(1, name).str(4, in...).str(5, out...).str(10, "f").sub(9, msg{}.int(2, 21))
	return msg{}.sub(25, append(f, join(parts...)...))
}

// Parts of a GraphProto; of a FunctionProto, nodes have another number.
func gname(s string) msg        { return msg{}.str(2, s) }
func gnode(n msg) msg           { return msg{}.sub(1, n) }
func fnode(n msg) msg           { return msg{}.sub(7, n) }
func input(n string, t msg) msg { return msg{}.sub(11, info(n, t)) }
func output(n ...string) (m msg) {
	for _, s := range n {
		m = m.sub(12, info(s, nil))
	}
	return m
}

func info(name string, t msg) msg {
	m := msg{}.str(1, name)
	if t != nil {
		m = m.sub(2, t)
	}
	return m
}

func f32(dims ...any) msg {
	var shape msg
	for _, d := range dims {
		switch d := d.(type) {
		case int:
			shape = shape.sub(1, msg{}.int(1, int64(d)))
		case string:
			shape = shape.sub(1, msg{}.str(2, d))
		}
	}
	return msg{}.sub(1, msg{}.int(1, 1).sub(2, shape))
}

func boolean() msg { return msg{}.sub(1, msg{}.int(1, 9).sub(2, msg{})) }

func node(op, name string, in, out []string, attrs ...msg) msg {
	return msg{}.str(1, in...).str(2, out...).str(3, name).str(4, op).sub(5, attrs...)
}

func call(domain string, n msg) msg { return append(n, msg{}.str(7, domain)...) }

func intAttr(name string, v int64) msg      { return msg{}.str(1, name).int(3, v).int(20, 2) }
func graphAttr(name string, g msg) msg      { return msg{}.str(1, name).sub(6, g).int(20, 5) }
func refAttr(name, ref string, k int64) msg { return msg{}.str(1, name).str(21, ref).int(20, k) }
func floatAttr(name string, v float32) msg {
	m := msg{}.str(1, name)
	m = protowire.AppendFixed32(protowire.AppendTag(m, 2, protowire.Fixed32Type), math.Float32bits(v))
	return m.int(20, 1)
}

// vector makes a TensorProto.
func vector(name string, vs ...float32) msg {
	b, err := tensor.AppendProto(nil, name, tensor.From(append([]float32{}, vs...)))
	if err != nil {
		panic(err)
	}
	return b
}

func initializer(t msg) msg { return msg{}.sub(5, t) }

func names(s ...string) []string { return s }

// parse reads a model that must be right, and checks the invariants.
func parse(b []byte) *onnx.Model {
	GinkgoHelper()
	m, err := onnx.Parse(context.Background(), b, nil)
	Expect(err).NotTo(HaveOccurred())
	Expect(graph.Verify(m.Graph)).To(Succeed())
	return m
}

// fault reads a model that must be wrong, and returns the typed error.
func fault(b []byte, o *onnx.Options) *onnx.Error {
	GinkgoHelper()
	m, err := onnx.Parse(context.Background(), b, o)
	Expect(err).To(HaveOccurred())
	Expect(m).To(BeNil())
	var own *onnx.Error
	Expect(errors.As(err, &own)).To(BeTrue())
	return own
}

// relu is a model of one node.
func relu(parts ...msg) []byte {
	return model(join(append([]msg{gname("g"), gnode(node("Relu", "r", names("x"), names("y"))), input("x", f32("N", 3)), output("y")}, parts...)...))
}
