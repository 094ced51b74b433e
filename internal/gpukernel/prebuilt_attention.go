package gpukernel

import (
	"fmt"
	"math"
)

// attentionVariant is what of attention is compiled in: queries of a group, and the blocks of TILE columns that an item has room for.
type attentionVariant struct{ tile, blocks int }

// prebuiltAttentionLocal is the local memory that attention may take: what every device of capability 7.5 has.
const prebuiltAttentionLocal = 64 << 10

func attentionVariants() []attentionVariant { return []attentionVariant{{32, 4}, {16, 8}} }

var (
	attentionNumbers = arguments(false, "queries keys depth width depth4 width4 heads shared_by causal scale_bits q_row k_row v_row c_row masked")
	attentionStrides = arguments(true, "q_batch q_head k_batch k_head v_batch v_head c_batch c_head mask_batch mask_head mask_query mask_key")
)

func (v attentionVariant) kernel() *Kernel {
	k := &Kernel{Name: fmt.Sprintf("attention_%d", v.tile), Threads: v.tile * v.tile / 16, Arena: prebuiltAttentionLocal, Waits: true,
		Files: []string{"attention.h"}, Body: source("attention_body.h")}
	k.Params = []Param{{Name: "q", Type: F32}, {Name: "keys", Type: F32}, {Name: "values", Type: F32}, {Name: "c", Type: F32, Written: true}, {Name: "mask", Type: F32}}
	k.take(attentionNumbers)
	k.take(attentionStrides)
	k.Defines = append(k.Defines, def("TILE", v.tile), def("COLUMN_BLOCKS", v.blocks), Define{"SCALE", "f32_of_bits((u32)SCALE_BITS)"},
		Define{"MASK(query, key)", "(MASKED ? mask[(i64)batch * MASK_BATCH + (i64)head * MASK_HEAD + (i64)(query) * MASK_QUERY + (i64)(key) * MASK_KEY] : 0.0f)"})
	for _, n := range []string{"Q", "K", "V"} {
		k.Defines = append(k.Defines, def(n+"_WHOLE", 0), def(n+"_T", F32))
	}
	k.Defines = append(k.Defines, def("C_T", F32))
	return k
}

// prebuilt is Attention by a kernel that was compiled beforehand.
func (s *AttentionShape) prebuilt(d Device) (*Plan, error) {
	for _, m := range []Matrix{s.Q, s.K, s.V, s.C} {
		if m.Type != F32 {
			return nil, unsupported("attention on %s by a kernel that was compiled beforehand", m.Type)
		}
	}
	if s.Mask != "" && s.Mask != F32 {
		return nil, unsupported("a mask of %s for a kernel that was compiled beforehand", s.Mask)
	}
	for _, v := range attentionVariants() {
		k := *prebuilt().attention[v]
		k.Arena = s.arena(v.tile)
		if s.Width > v.tile*v.blocks || k.Arena > min(prebuiltAttentionLocal, d.Local) {
			continue
		}
		mask, m := buffer("q"), s.MaskStrides // what is not read
		if s.Mask != "" {
			mask = buffer("mask")
		}
		args := []Arg{buffer("q"), buffer("k"), buffer("v"), buffer("c"), mask}
		args = append(args, values(s.Queries, s.Keys, s.Depth, s.Width, ceilDiv(s.Depth, 4)*4, ceilDiv(s.Width, 4)*4, s.Heads, s.Heads/s.KVHeads, flag(s.Causal),
			int(int32(math.Float32bits(s.Scale))), s.Q.Stride, s.K.Stride, s.V.Stride, s.C.Stride, flag(s.Mask != ""),
			s.Q.Batch0, s.Q.Batch1, s.K.Batch0, s.K.Batch1, s.V.Batch0, s.V.Batch1, s.C.Batch0, s.C.Batch1, m[0], m[1], m[2], m[3])...)
		return &Plan{Launches: []Launch{{&k, [3]int{ceilDiv(s.Queries, v.tile), s.Batch * s.Heads, 1}, args}}}, nil
	}
	return nil, unsupported("attention of depth %d and width %d by a kernel that was compiled beforehand", s.Depth, s.Width)
}
