package gpukernel

import "fmt"

// AttentionShape is softmax(scale × Q × Kᵀ + mask) × V, for each of Batch × Heads heads: Q [Queries, Depth], K [Keys, Depth],
// V [Keys, Width]. Buffers are "q", "k", "v", "c", and "mask" where there is one. Queries whose keys are all masked get zeros.
type AttentionShape struct {
	Batch, Heads  int
	KVHeads       int // heads of K and V, a divisor of Heads; 0 for Heads
	Queries, Keys int
	Depth, Width  int
	Q, K, V, C    Matrix // Stride: from one row to the next; Batch0 and Batch1: of the batch and of the heads
	Scale         float32
	Causal        bool   // query i sees keys to i + Keys − Queries
	Mask          Type   // of the elements that are added to products; "" for none
	MaskStrides   [4]int // by batch, head, query and key; 0 where it is the same for all
}

const depthMax = 256

func (s *AttentionShape) check() error {
	if s.KVHeads == 0 {
		s.KVHeads = s.Heads
	}
	for _, v := range []int{s.Batch, s.Heads, s.KVHeads, s.Queries, s.Keys, s.Depth, s.Width} {
		if v < 1 || v > 1<<24 {
			return unsupported("attention with an extent of %d", v)
		}
	}
	if s.Heads%s.KVHeads != 0 || max(s.Depth, s.Width) > depthMax || s.Batch*s.Heads > 65535 {
		return unsupported("attention of %d×%d heads over %d, of depth %d and %d", s.Batch, s.Heads, s.KVHeads, s.Depth, s.Width)
	}
	for _, m := range []Matrix{s.Q, s.K, s.V, s.C} {
		if m.Type != F32 && !m.Type.isHalf() {
			return unsupported("attention on %s", m.Type)
		}
	}
	if s.K.Type != s.V.Type || s.Mask != "" && s.Mask != F32 && !s.Mask.isHalf() {
		return unsupported("attention on keys of %s, values of %s, a mask of %s", s.K.Type, s.V.Type, s.Mask)
	}
	return nil
}

// Attention returns the plan of attention in one kernel: groups hold some queries, pass over keys and values in tiles, and scale
// what they have whenever a greater product turns up. Products are computed in float32, of every element type. The error wraps
// ErrUnsupported.
func Attention(name string, d Device, s AttentionShape) (*Plan, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	if d.Prebuilt {
		return s.prebuilt(d)
	}
	for _, tile := range []int{64, 32, 16} {
		k := s.kernel(name, tile)
		if k.Arena > d.Local || tile > 32 && 2*k.Arena > d.LocalTotal+d.LocalTotal/4 {
			continue
		}
		args := []Arg{buffer("q"), buffer("k"), buffer("v"), buffer("c")}
		if s.Mask != "" {
			args = append(args, buffer("mask"))
		}
		grid := [3]int{ceilDiv(s.Queries, tile), s.Batch * s.Heads, 1}
		return &Plan{Launches: []Launch{{k, grid, args}}}, nil
	}
	return nil, unsupported("attention of depth %d in %d bytes of local memory", s.Depth, d.Local)
}

func (s *AttentionShape) kernel(name string, tile int) *Kernel {
	depth, width := ceilDiv(s.Depth, 4)*4, ceilDiv(s.Width, 4)*4
	params := []Param{{Name: "q", Type: s.Q.Type}, {Name: "keys", Type: s.K.Type}, {Name: "values", Type: s.V.Type},
		{Name: "c", Type: s.C.Type, Written: true}}
	mask := "0.0f"
	if s.Mask != "" {
		params = append(params, Param{Name: "mask", Type: s.Mask})
		m := s.MaskStrides
		mask = fmt.Sprintf("LOAD(%s, mask, (i64)batch * %d + (i64)head * %d + (i64)(query) * %d + (i64)(key) * %d)", s.Mask, m[0], m[1], m[2], m[3])
	}
	defines := []Define{
		def("TILE", tile), def("QUERIES", s.Queries), def("KEYS", s.Keys), def("DEPTH", s.Depth), def("WIDTH", s.Width),
		def("DEPTH4", depth), def("WIDTH4", width), def("HEADS", s.Heads), def("SHARED_BY", s.Heads/s.KVHeads),
		def("CAUSAL", flag(s.Causal)), def("SCALE", FloatLiteral(s.Scale)), {"MASK(query, key)", mask}, def("C_T", s.C.Type),
	}
	for i, m := range []Matrix{s.Q, s.K, s.V, s.C} {
		n := string("QKVC"[i])
		defines = append(defines, def(n+"_ROW", m.Stride), def(n+"_BATCH", m.Batch0), def(n+"_HEAD", m.Batch1))
	}
	for i, m := range []Matrix{s.Q, s.K, s.V} {
		extent := s.Depth
		if i == 2 {
			extent = s.Width
		}
		whole := m.Type == F32 && vector(m, extent) == 4
		defines = append(defines, def(string("QKV"[i])+"_WHOLE", flag(whole)), def(string("QKV"[i])+"_T", m.Type))
	}
	return &Kernel{Name: name, Params: params, Defines: defines, Files: []string{"attention.h"}, Body: source("attention_body.h"),
		Threads: tile * tile / 16, Arena: s.arena(tile), Waits: true}
}

// arena returns the bytes of local memory of a group with so many queries.
func (s *AttentionShape) arena(tile int) int {
	depth, width := ceilDiv(s.Depth, 4)*4, ceilDiv(s.Width, 4)*4
	return 4 * (2*tile*(depth+4) + tile*(width+4) + tile*(tile+4) + 3*tile + tile*tile/16)
}
