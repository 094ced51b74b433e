package microsoft_test

import (
	"fmt"
	"math/rand/v2"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph/tensor"
)

var _ = Describe("slices of data in blocks, GatherBlockQuantized", func() {
	It("are those of the numbers that the data stand for, along any axes", func(ctx SpecContext) {
		r := rand.New(rand.NewPCG(3, 4))
		for range 60 {
			dims := [3]int{1 + r.IntN(5), 1 + r.IntN(40), 1 + r.IntN(40)}
			axis, along, signed, withZeros := r.IntN(3), r.IntN(3), r.IntN(2), r.IntN(2) == 0
			block := 16 << r.IntN(2)
			of := dims
			of[along] = (dims[along] + block - 1) / block
			integers := func(d [3]int) (*tensor.Tensor, []int64) {
				v := make([]int64, d[0]*d[1]*d[2])
				for i := range v {
					v[i] = int64(r.IntN(16) - 8*signed)
				}
				t, err := tensor.New([2]tensor.DType{tensor.Uint4, tensor.Int4}[signed], d[:]...)
				Expect(err).NotTo(HaveOccurred())
				Expect(tensor.EncodeInts(t, v)).To(Succeed())
				return t, v
			}
			data, q := integers(dims)
			zeros, z := integers(of)
			scales, places := make([]float32, len(z)), make([]int64, 1+r.IntN(4))
			for i := range scales {
				scales[i] = 0.5 + r.Float32()
			}
			for i := range places {
				places[i] = int64(r.IntN(2*dims[axis]) - dims[axis])
			}
			t := [2]string{"u4", "i4"}[signed]
			text, operand := fmt.Sprintf(" input %%d: %s[%d,%d,%d]\n input %%x: i64[%d]\n input %%s: f32[%d,%d,%d]\n", t, dims[0], dims[1], dims[2], len(places), of[0], of[1], of[2]), ""
			in := map[string]tensor.Value{"d": data, "x": tensor.From(places, len(places)), "s": tensor.From(scales, of[:]...)}
			if withZeros {
				text += fmt.Sprintf(" input %%z: %s[%d,%d,%d]\n", t, of[0], of[1], of[2])
				operand, in["z"] = ", %z", zeros
			}
			y := run(ctx, fmt.Sprintf("%s %%y = com.microsoft::GatherBlockQuantized(%%d, %%x, %%s%s; gather_axis=%d, quantize_axis=%d, block_size=%d) \"node\"\n output %%y",
				text, operand, axis-3*r.IntN(2), along-3*r.IntN(2), block), in)
			want := dims
			want[axis] = len(places)
			Expect(y.Shape).To(Equal(want[:]))
			for i, got := range tensor.Elements[float32](y) {
				at := [3]int{i / (want[1] * want[2]), i / want[2] % want[1], i % want[2]}
				at[axis] = int(places[at[axis]]+int64(dims[axis])) % dims[axis]
				number := q[(at[0]*dims[1]+at[1])*dims[2]+at[2]]
				at[along] /= block
				b := (at[0]*of[1]+at[1])*of[2] + at[2]
				if withZeros {
					number -= z[b]
				}
				Expect(got).To(Equal(float32(number)*scales[b]), "%v along %d of %v, blocks of %d along %d", at, axis, dims, block, along)
			}
		}
	})
})
