package graph

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"
	"math"
	"slices"
	"unsafe"

	"github.com/carve-dev/carve/graph/tensor"
)

// mergeTwins merges constants with the same content, and nodes with the same operator, attributes and operands. Random
// operators, nodes with regions, carve's own operators and unknown ones stay apart.
func (s *simplifier) mergeTwins() error {
	if s.state.merged == s.changes+1 {
		return nil
	}
	t := twins{s: s, seed: maphash.MakeSeed()}
	if s.state.consts != len(s.g.consts) {
		t.constants()
		s.state.consts = len(s.g.consts)
	}
	if err := t.nodes(); err != nil {
		return err
	}
	s.state.merged = s.changes + 1
	return nil
}

// twins finds equal nodes or constants with a hash table of positions: small, for graphs of a million nodes.
type twins struct {
	s    *simplifier
	seed maphash.Seed
}

// mostAlike bounds the elements of one hash that another one is compared with. Hashes of constants are of a sample of their
// elements, and a model may have been made so that they are all the same.
const mostAlike = 64

// findTwin returns the position in a list of an element that equals element i, or -1 after it has added i, unless there are
// many of its hash. The hashes are the elements', the table is of a power of two and at most half full.
func findTwin(table []int32, hashes []uint32, i int, equal func(j int) bool) int {
	mask := uint32(len(table) - 1)
	alike := 0
	for k := hashes[i] & mask; alike < mostAlike; k = (k + 1) & mask {
		j := int(table[k]) - 1
		if j < 0 {
			table[k] = int32(i) + 1
			return -1
		}
		if hashes[j] != hashes[i] {
			continue
		}
		if equal(j) {
			return j
		}
		alike++
	}
	return -1
}

func twinTable(n int) []int32 {
	size := 16
	for size < 2*n {
		size *= 2
	}
	return make([]int32, size)
}

func mix(h, x uint64) uint64 {
	h = (h ^ x) * 0x9e3779b97f4a7c15
	return h ^ h>>29
}

func fold32(h uint64) uint32 { return uint32(h ^ h>>32) }

// nodes visits in topological order, so that the operands of twins are merged before them.
func (t *twins) nodes() error {
	order, err := t.s.order()
	if err != nil {
		return err
	}
	table, hashes := twinTable(len(order)), make([]uint32, len(order))
	for i, n := range order {
		if n.graph != t.s.g || n.Schema == nil || isRandomNode(n) || len(n.Regions) > 0 || len(n.Outputs) == 0 || n.Op.Domain == CarveDomain {
			continue
		}
		hashes[i] = fold32(t.hashNode(n))
		j := findTwin(table, hashes, i, func(j int) bool { return equalNodes(order[j], n) })
		if j < 0 {
			continue
		}
		first := order[j]
		for k, v := range n.Outputs {
			if v == nil || len(v.uses) == 0 && v.output == 0 {
				continue
			}
			if w := first.Outputs[k]; w.Type.Kind == KindUnknown {
				w.Type = v.Type
			}
			t.s.replace(v, first.Outputs[k])
		}
		t.s.absorb(first, n)
		t.s.g.Remove(n)
		t.s.changes++
	}
	return nil
}

func (t *twins) hashNode(n *Node) uint64 {
	h := mix(maphash.String(t.seed, n.Op.Name), uint64(len(n.Outputs)))
	for _, v := range n.Inputs {
		if v == nil {
			h = mix(h, math.MaxUint64)
			continue
		}
		h = mix(h, uint64(v.ID))
	}
	for i := range n.Attrs {
		a := &n.Attrs[i]
		h = mix(h, maphash.String(t.seed, a.Name))
		h = mix(h, uint64(a.Int)^uint64(math.Float32bits(a.Float)))
		if a.Str != "" {
			h = mix(h, maphash.String(t.seed, a.Str))
		}
		for _, k := range a.Ints {
			h = mix(h, uint64(k))
		}
	}
	return h
}

func equalNodes(a, b *Node) bool {
	return a.Op == b.Op && slices.Equal(a.Inputs, b.Inputs) && a.Backend == b.Backend &&
		slices.EqualFunc(a.Outputs, b.Outputs, func(v, w *Value) bool { return (v == nil) == (w == nil) && (v == nil || v.Format == w.Format) }) &&
		slices.EqualFunc(a.Attrs, b.Attrs, equalAttrs)
}

func equalAttrs(a, b Attr) bool {
	sameFloat := func(x, y float32) bool { return math.Float32bits(x) == math.Float32bits(y) }
	return a.Name == b.Name && a.Kind == b.Kind && a.Int == b.Int && sameFloat(a.Float, b.Float) && a.Str == b.Str &&
		slices.Equal(a.Ints, b.Ints) && slices.EqualFunc(a.Floats, b.Floats, sameFloat) && slices.Equal(a.Strs, b.Strs) &&
		a.Type.Equal(b.Type) && slices.EqualFunc(a.Dims, b.Dims, Dim.Equal) &&
		(a.Tensor == b.Tensor || a.Tensor != nil && b.Tensor != nil && equalTensors(a.Tensor, b.Tensor)) &&
		slices.EqualFunc(a.Tensors, b.Tensors, equalTensors)
}

// hashedBytes bounds the constants whose content is compared; larger ones are twins where they share storage.
const hashedBytes = 1 << 16

// constants merges constants and dims values. Those before in the list stay.
func (t *twins) constants() {
	list := t.s.g.consts
	table, hashes := twinTable(len(list)), make([]uint32, len(list))
	for i, v := range list {
		if v == nil {
			continue
		}
		h := mix(uint64(v.kind), uint64(v.Type.DType))
		if v.Const != nil {
			h = mix(h, t.hashTensor(v.Const))
		} else {
			for _, d := range v.Dims {
				h = mix(h, maphash.String(t.seed, d.String()))
			}
		}
		hashes[i] = fold32(h)
		j := findTwin(table, hashes, i, func(j int) bool { return equalConsts(list[j], v) })
		if j >= 0 {
			t.s.g.ReplaceUses(v, list[j])
			t.s.g.RemoveConst(v)
			t.s.changes++
		}
	}
}

func equalConsts(a, b *Value) bool {
	if a.kind != b.kind || a.Format != b.Format || !a.Type.Equal(b.Type) {
		return false
	}
	if a.Const != nil {
		return equalTensors(a.Const, b.Const)
	}
	return slices.EqualFunc(a.Dims, b.Dims, Dim.Equal)
}

// content returns the elements of a small compact host tensor that has no strings.
func content(t *tensor.Tensor) ([]byte, bool) {
	if t.DType == tensor.String || !t.Device.IsHost() || !t.IsCompact() || t.NumBytes() > hashedBytes {
		return nil, false
	}
	return t.Bytes(), true
}

// sample is how many bytes of a constant are looked at for its hash: half of them at its ends, and as many in between.
const sample = 256

func (t *twins) hashTensor(x *tensor.Tensor) uint64 {
	h := uint64(len(x.Shape))
	for _, d := range x.Shape {
		h = mix(h, uint64(d))
	}
	b, ok := content(x)
	if !ok {
		return mix(mix(h, uint64(x.Offset)), uint64(uintptr(unsafe.Pointer(unsafe.SliceData(x.Data)))))
	}
	if len(b) <= 2*sample {
		return mix(h, maphash.Bytes(t.seed, b))
	}
	h = mix(h, maphash.Bytes(t.seed, b[:sample/2]))
	step := (len(b) - sample) / (sample / 8)
	for at := sample / 2; at < len(b)-sample/2; at += step {
		h = mix(h, binary.LittleEndian.Uint64(b[at:]))
	}
	return mix(h, maphash.Bytes(t.seed, b[len(b)-sample/2:]))
}

func equalTensors(a, b *tensor.Tensor) bool {
	if a == b {
		return true
	}
	if a.DType != b.DType || !slices.Equal(a.Shape, b.Shape) {
		return false
	}
	x, ok := content(a)
	y, ok2 := content(b)
	if ok && ok2 {
		return bytes.Equal(x, y)
	}
	if a.DType == tensor.String {
		return a.Strides == nil && b.Strides == nil && a.Len() <= hashedBytes/16 && slices.Equal(a.Strings[:a.Len()], b.Strings[:b.Len()])
	}
	return a.Device == b.Device && a.Handle == b.Handle && a.Offset == b.Offset && slices.Equal(a.Strides, b.Strides) &&
		len(a.Data) == len(b.Data) && unsafe.SliceData(a.Data) == unsafe.SliceData(b.Data)
}
