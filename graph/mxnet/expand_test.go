package mxnet_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/mxnet"
	"github.com/carve-dev/carve/graph/tensor"
)

// expandedAlike compares an operator of MXNet with what Expand makes of it, on random operands.
func expandedAlike(ctx SpecContext, op, attrs string, open bool, in ...*tensor.Tensor) {
	GinkgoHelper()
	var nodes, entries []string
	inputs := map[string]*tensor.Tensor{}
	for i, t := range in {
		name := fmt.Sprintf("x%d", i)
		nodes = append(nodes, fmt.Sprintf(`{"op":"null","name":%q,"inputs":[]}`, name))
		entries = append(entries, fmt.Sprintf("[%d,0]", i))
		inputs[name] = t
	}
	text := fmt.Sprintf(`{"nodes":[%s,{"op":%q,"name":"y","attrs":{%s},"inputs":[%s]}],"heads":[[%d,0]],"attrs":{"mxnet_version":["int",10901]}}`,
		strings.Join(nodes, ","), op, attrs, strings.Join(entries, ","), len(in))
	o := fedWith(inputs)
	if open {
		for name, shape := range o.Shapes {
			o.Shapes[name] = append([]int{-1}, shape[1:]...)
		}
	}
	m, err := mxnet.Parse(ctx, []byte(text), nil, o)
	Expect(err).NotTo(HaveOccurred())
	want := outputsOf(ctx, m, inputs, "reference")
	Expect(mxnet.Expand(ctx, m.Graph)).To(Succeed())
	Expect(graph.Verify(m.Graph)).To(Succeed())
	Expect(m.Graph.Opsets).NotTo(HaveKey(mxnet.Domain))
	for n := range m.Graph.Nodes() {
		Expect(n.Op.Domain).To(BeEmpty())
	}
	_, problem := differ(outputsOf(ctx, m, inputs, "reference")[0], want[0], 1e-6)
	Expect(problem).To(BeEmpty(), "%s %s of %v", op, attrs, in)
}

// uniform are random numbers of a range.
func uniform(r *rand.Rand, lo, hi float64, shape ...int) *tensor.Tensor {
	t := f32(shape...)
	data := make([]float64, t.Len())
	for i := range data {
		data[i] = lo + (hi-lo)*r.Float64()
	}
	if err := tensor.Encode(t, data); err != nil {
		panic(err)
	}
	return t
}

// randomBoxes are rows [..., k] whose last four numbers from at on are boxes, with distinct scores at score and few classes at class.
func randomBoxes(r *rand.Rand, class, score, at, k int, center bool, shape ...int) *tensor.Tensor {
	t := uniform(r, -0.2, 1, append(shape, k)...)
	data := make([]float64, t.Len())
	if err := tensor.Decode(data, t); err != nil {
		panic(err)
	}
	n := len(data) / k
	for i, place := range r.Perm(n) {
		row := data[i*k : (i+1)*k]
		if class >= 0 {
			row[class] = float64(r.IntN(3) - 1)
		}
		row[score] = float64(place)/float64(n) - 0.1
		if !center {
			row[at+2], row[at+3] = row[at]+r.Float64()/2, row[at+1]+r.Float64()/2
		}
	}
	if err := tensor.Encode(t, data); err != nil {
		panic(err)
	}
	return t
}

var _ = Describe("what Expand makes of MXNet's operators computes the same", func() {
	var r *rand.Rand
	BeforeEach(func() { r = rand.New(rand.NewPCG(uint64(*seed), 11)) })
	pick := func(list ...any) any { return list[r.IntN(len(list))] }

	It("of functions of one number", func(ctx SpecContext) {
		edges := []float32{-2.5, -1, -0.5, 0, 0.25, 0.5, 1, 1.5, 2, 3.25, 20, -0.9999, 0.9999, -3.75}
		for _, op := range []string{"gamma", "gammaln", "digamma", "erfinv"} {
			for _, open := range []bool{false, true} {
				expandedAlike(ctx, op, "", open, uniform(r, -0.999, 0.999, 3, 100))
				expandedAlike(ctx, op, "", open, uniform(r, 0.5, 8, 50))
			}
			for _, x := range edges {
				in := []*tensor.Tensor{tensor.From([]float32{x}, 1)}
				expandedAlike(ctx, op, "", false, in...)
			}
		}
		expandedAlike(ctx, "erfinv", "", false, tensor.From([]float32{-1, 1, 2, -2, float32(math.NaN()), 1 - 1e-7}, 6))
	})
	It("of matrices", func(ctx SpecContext) {
		for range 20 {
			n, k, batch := 1+r.IntN(6), 1+r.IntN(4), 1+r.IntN(3)
			a := uniform(r, -1, 1, batch, n, n)
			expandedAlike(ctx, "_linalg_inverse", "", r.IntN(2) == 0, a)
			low := uniform(r, 0.5, 1.5, batch, n, n)
			expandedAlike(ctx, "_linalg_trsm", fmt.Sprintf(`"rightside":"%v","alpha":"1.5"`, false), false, low, uniform(r, -1, 1, batch, n, k))
			square := uniform(r, -0.1, 0.1, batch, n, n)
			data := make([]float64, square.Len())
			Expect(tensor.Decode(data, square)).To(Succeed())
			for b := range batch {
				for i := range n {
					for j := range i {
						data[(b*n+j)*n+i] = data[(b*n+i)*n+j]
					}
					data[(b*n+i)*n+i] = 1 + r.Float64()
				}
			}
			Expect(tensor.Encode(square, data)).To(Succeed())
			expandedAlike(ctx, "_linalg_potrf", "", r.IntN(2) == 0, square)
		}
	})
	It("of correlations", func(ctx SpecContext) {
		for range 20 {
			c, h, w := 1+r.IntN(3), 7+r.IntN(5), 7+r.IntN(5)
			attrs := fmt.Sprintf(`"kernel_size":"%d","max_displacement":"%d","stride1":"%d","stride2":"%d","pad_size":"%d","is_multiply":"%v"`,
				1+r.IntN(4), r.IntN(4), 1+r.IntN(2), 1+r.IntN(2), 2+r.IntN(3), r.IntN(2) == 0)
			expandedAlike(ctx, "Correlation", attrs, r.IntN(2) == 0, uniform(r, -1, 1, 2, c, h, w), uniform(r, -1, 1, 2, c, h, w))
		}
	})
	It("of anchors of an image whose size is not known", func(ctx SpecContext) {
		for _, attrs := range []string{`"sizes":"(0.5, 0.25)","ratios":"(1, 2, 0.5)"`, `"sizes":"(0.7,)","ratios":"(3,)","clip":"True","steps":"(0.2, 0.3)","offsets":"(0.4, 0.6)"`} {
			x := f32(1, 2, 4, 5)
			m, err := mxnet.Parse(ctx, []byte(strings.ReplaceAll(`{"nodes":[{"op":"null","name":"x","inputs":[]},{"op":"_contrib_MultiBoxPrior","name":"y","attrs":{ATTRS},"inputs":[[0,0]]}],"heads":[[1,0]]}`, "ATTRS", attrs)),
				nil, &mxnet.Options{Shapes: map[string][]int{"x": {1, 2, -1, -1}}})
			Expect(err).NotTo(HaveOccurred())
			want := outputsOf(ctx, m, map[string]*tensor.Tensor{"x": x}, "reference")
			Expect(mxnet.Expand(ctx, m.Graph)).To(Succeed())
			Expect(graph.Verify(m.Graph)).To(Succeed())
			_, problem := differ(outputsOf(ctx, m, map[string]*tensor.Tensor{"x": x}, "reference")[0], want[0], 1e-6)
			Expect(problem).To(BeEmpty())
		}
	})
	It("of box_nms", func(ctx SpecContext) {
		for range 30 {
			in, out := pick("corner", "center"), pick("corner", "center")
			k := 6 + r.IntN(2)
			class, score, at := pick(0, 0, -1).(int), 1, 2
			if r.IntN(4) == 0 {
				class, score, at = -1, k-1, 0
			}
			attrs := fmt.Sprintf(`"overlap_thresh":"%.2f","valid_thresh":"%.2f","topk":"%d","coord_start":"%d","score_index":"%d","id_index":"%d","background_id":"%d","force_suppress":"%v","in_format":%q,"out_format":%q`,
				0.1+0.7*r.Float64(), 0.2*r.Float64(), pick(-1, 0, 3, 8), at, score, class, pick(-1, 0), r.IntN(2) == 0, in, out)
			shape := [][]int{{12}, {2, 9}, {2, 2, 5}}[r.IntN(3)]
			expandedAlike(ctx, "_contrib_box_nms", attrs, r.IntN(2) == 0, randomBoxes(r, class, score, at, k, in == "center", shape...))
		}
	})
	It("of proposals", func(ctx SpecContext) {
		for range 10 {
			n, h, w := 1+r.IntN(2), 2+r.IntN(4), 2+r.IntN(4)
			info := make([]float32, 0, 3*n)
			for range n {
				info = append(info, float32(16*h-r.IntN(8)), float32(16*w-r.IntN(8)), 1)
			}
			attrs := fmt.Sprintf(`"scales":"(2, 4)","ratios":"(0.5, 1)","rpn_pre_nms_top_n":"%d","rpn_post_nms_top_n":"%d","threshold":"%.2f","rpn_min_size":"%d","iou_loss":"%v"`,
				10+r.IntN(50), 1+r.IntN(20), 0.3+0.5*r.Float64(), 1+r.IntN(20), r.IntN(4) == 0)
			expandedAlike(ctx, "_contrib_MultiProposal", attrs, false, uniform(r, 0, 1, n, 8, h, w), uniform(r, -0.3, 0.3, n, 16, h, w), tensor.From(info, n, 3))
		}
	})
	It("of detections", func(ctx SpecContext) {
		for range 30 {
			b, c, n := 1+r.IntN(2), 1+r.IntN(4), 1+r.IntN(15)
			attrs := fmt.Sprintf(`"clip":"%v","threshold":"%.2f","background_id":"%d","nms_threshold":"%.2f","force_suppress":"%v","nms_topk":"%d"`,
				r.IntN(2) == 0, 0.5*r.Float64(), pick(0, 0, 1, 7), pick(0.3, 0.5, 0.05, 0.0, 1.5), r.IntN(2) == 0, pick(-1, 0, 4))
			expandedAlike(ctx, "_contrib_MultiBoxDetection", attrs, false, uniform(r, 0, 1, b, c, n), uniform(r, -1, 1, b, 4*n),
				randomBoxes(r, -1, 0, 0, 4, false, 1, n))
		}
	})
	It("of none, where nobody reads the result, or names where a rank is missing", func(ctx SpecContext) {
		g, err := graph.Parse("graph { opset 24\n opset \"mxnet\" 1\n input %x: f32[2]\n _ = mxnet::Gamma(%x) \"g\"\n %y: f32[2] = Abs(%x)\n output %y }")
		Expect(err).NotTo(HaveOccurred())
		Expect(mxnet.Expand(ctx, g)).To(Succeed())
		Expect(g.NumNodes()).To(Equal(1))
		g, err = graph.Parse("graph { opset 24\n opset \"mxnet\" 1\n input %x: f32[*]\n %y: f32[*] = mxnet::BoxNMS(%x) \"boxes\"\n output %y }")
		Expect(err).NotTo(HaveOccurred())
		err = mxnet.Expand(ctx, g)
		Expect(err).To(MatchError(mxnet.ErrShape))
		Expect(err).To(MatchError(ContainSubstring("boxes")))
	})
})
