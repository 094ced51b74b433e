package microsoft_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// runScales are the operands of a QLinearConv or QLinearMatMul whose scales a run tells.
type runScales struct {
	r      *rand.Rand
	signed [3]bool // x, w and the result
	x, w   []int   // dims
	many   bool    // scales and zero points of w are for each channel or column
	n      int     // of these
}

func (s *runScales) dtype(i int) string { return map[bool]string{true: "i8", false: "u8"}[s.signed[i]] }

// bytes returns random integers of 8 bits of an operand's type, and the numbers that they are.
func (s *runScales) bytes(i int, dims ...int) (*tensor.Tensor, []int) {
	t, err := tensor.New(map[bool]tensor.DType{true: tensor.Int8, false: tensor.Uint8}[s.signed[i]], dims...)
	Expect(err).NotTo(HaveOccurred())
	v := make([]int, t.Len())
	for j := range v {
		v[j] = s.r.IntN(256)
		if s.signed[i] {
			v[j] -= 128
		}
		t.Data[j] = byte(v[j])
	}
	return t, v
}

func (s *runScales) floats(least float32, dims ...int) (*tensor.Tensor, []float32) {
	n := 1
	for _, d := range dims {
		n *= d
	}
	v := make([]float32, n)
	for i := range v {
		v[i] = least * (1 + s.r.Float32())
	}
	return tensor.From(v, dims...), v
}

// judge runs the operator on cpu alone, and compares the result with that of sums, a function of x and w about their zero points.
func (s *runScales) judge(ctx SpecContext, call, more string, bias []int32, sums func(x, w []int) ([]int, func(i int) int)) {
	GinkgoHelper()
	each := []int{}
	if s.many {
		each = []int{s.n}
	}
	in := map[string]tensor.Value{}
	tx, x := s.bytes(0, s.x...)
	tw, w := s.bytes(1, s.w...)
	xz, x0 := s.bytes(0)
	wz, w0 := s.bytes(1, each...)
	yz, y0 := s.bytes(2)
	xs, fx := s.floats(0.01)
	ws, fw := s.floats(0.002, each...)
	ys, fy := s.floats(0.3)
	for name, t := range map[string]*tensor.Tensor{"x": tx, "w": tw, "xz": xz, "wz": wz, "yz": yz, "xs": xs, "ws": ws, "ys": ys} {
		in[name] = t
	}
	if bias != nil {
		in["b"] = tensor.From(bias, len(bias))
	}
	text := head
	for _, p := range []struct {
		name string
		t    *tensor.Tensor
		dt   string
	}{{"x", tx, s.dtype(0)}, {"xs", xs, "f32"}, {"xz", xz, s.dtype(0)}, {"w", tw, s.dtype(1)}, {"ws", ws, "f32"}, {"wz", wz, s.dtype(1)}, {"ys", ys, "f32"}, {"yz", yz, s.dtype(2)}} {
		text += fmt.Sprintf(" input %%%s: %s%v\n", p.name, p.dt, strings.ReplaceAll(fmt.Sprint(p.t.Shape), " ", ","))
	}
	g, err := graph.Parse(text + more + " %y = " + call + "\n output %y }")
	Expect(err).NotTo(HaveOccurred(), text+more+call)
	p, err := carve.Compile(ctx, carve.FromGraph(g), &carve.Options{Backends: []backend.Config{{Name: "cpu"}}, Strict: true, Verify: true})
	Expect(err).NotTo(HaveOccurred())
	defer p.Close()
	out, err := p.Run(ctx, in)
	Expect(err).NotTo(HaveOccurred())
	for i := range x {
		x[i] -= x0[0]
	}
	per := len(w) / len(w0)
	if s.many && len(s.w) == 2 { // of columns
		per = 1
	}
	for i := range w {
		w[i] -= w0[i/per%len(w0)]
	}
	got := out["y"].(*tensor.Tensor)
	want, channel := sums(x, w)
	Expect(got.Len()).To(Equal(len(want)))
	lo, hi := 0, 255
	if s.signed[2] {
		lo, hi = -128, 127
	}
	for i, sum := range want {
		c := channel(i)
		if bias != nil {
			sum += int(bias[c])
		}
		real := float64(sum)*float64(fx[0])*float64(fw[c%len(fw)])/float64(fy[0]) + float64(y0[0])
		Expect(math.Abs(got.Float64At(i)-min(max(real, float64(lo)), float64(hi)))).To(BeNumerically("<=", 0.5001), "%d: %v", i, real)
	}
}

var _ = Describe("products and convolutions of 8-bit integers whose scales a run tells", func() {
	draw := func(seed uint64) *runScales {
		r := rand.New(rand.NewPCG(seed, 9))
		return &runScales{r: r, signed: [3]bool{r.IntN(2) == 0, r.IntN(2) == 0, r.IntN(2) == 0}, many: r.IntN(2) == 0}
	}
	It("are rounded sums, on cpu: convolutions", func(ctx SpecContext) {
		for seed := range uint64(30) {
			s := draw(seed)
			c, m, size, k, pad, stride := 1+s.r.IntN(5), 1+s.r.IntN(20), 3+s.r.IntN(6), 1+s.r.IntN(3), s.r.IntN(2), 1+s.r.IntN(2)
			s.x, s.w, s.n = []int{2, c, size, size}, []int{m, c, k, k}, m
			var bias []int32
			more, b := "", ""
			if s.r.IntN(2) == 0 {
				more, b = fmt.Sprintf(" input %%b: i32[%d]\n", m), ", %b"
				for range m {
					bias = append(bias, int32(s.r.IntN(4000)-2000))
				}
			}
			out := (size+2*pad-k)/stride + 1
			s.judge(ctx, fmt.Sprintf("QLinearConv(%%x, %%xs, %%xz, %%w, %%ws, %%wz, %%ys, %%yz%s; pads=[%d, %d, %d, %d], strides=[%d, %d])", b, pad, pad, pad, pad, stride, stride), more, bias,
				func(x, w []int) ([]int, func(int) int) {
					sums := make([]int, 2*m*out*out)
					for i := range sums {
						for j := range c * k * k {
							y, at := i/out%out*stride+j/k%k-pad, i%out*stride+j%k-pad
							if y >= 0 && y < size && at >= 0 && at < size {
								sums[i] += x[((i/(m*out*out))*c+j/(k*k))*size*size+y*size+at] * w[i/(out*out)%m*c*k*k+j]
							}
						}
					}
					return sums, func(i int) int { return i / (out * out) % m }
				})
		}
	})
	It("are rounded sums, on cpu: matrices", func(ctx SpecContext) {
		for seed := range uint64(30) {
			s := draw(seed)
			rows, k, n := 1+s.r.IntN(9), 1+s.r.IntN(40), 1+s.r.IntN(40)
			s.x, s.w, s.n = []int{rows, k}, []int{k, n}, n
			s.judge(ctx, "QLinearMatMul(%x, %xs, %xz, %w, %ws, %wz, %ys, %yz)", "", nil, func(x, w []int) ([]int, func(int) int) {
				sums := make([]int, rows*n)
				for i := range sums {
					for j := range k {
						sums[i] += x[i/n*k+j] * w[j*n+i%n]
					}
				}
				return sums, func(i int) int { return i % n }
			})
		}
	})
})
