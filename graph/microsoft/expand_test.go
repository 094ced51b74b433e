package microsoft_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/reference"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/microsoft"
	"github.com/carve-dev/carve/graph/tensor"
)

const head = "graph {\n  opset 12\n  opset \"com.microsoft\" 1\n  opset \"com.microsoft.nchwc\" 1\n"

// expanded returns the operators that a graph consists of after Expand, and its graph.
func expanded(text string) (string, *graph.Graph, error) {
	g, err := graph.Parse(head + text + "}")
	if err != nil {
		return "", nil, err
	}
	for v := range g.Constants() { // as in files, where data may lie anywhere
		c := *v.Const
		c.Data, c.Offset = append([]byte{0}, c.Bytes()...), 1
		v.Const = &c
	}
	if err := graph.InferGraph(g); err != nil {
		return "", nil, err
	}
	if err := microsoft.Expand(g, nil); err != nil {
		return "", nil, err
	}
	if err := graph.Verify(g); err != nil {
		return "", nil, err
	}
	var ops []string
	for n := range g.Nodes() {
		ops = append(ops, n.Op.Name)
	}
	return strings.Join(ops, " "), g, nil
}

var _ = DescribeTable("a node becomes the standard operators that it stands for", func(text, want, typ string) {
	ops, g, err := expanded(text)
	Expect(err).NotTo(HaveOccurred())
	Expect(ops).To(Equal(want))
	Expect(g.Outputs[0].Name).To(Equal("y"))
	Expect(g.Outputs[0].Type.String()).To(Equal(typ))
	for n := range g.Nodes() {
		Expect(n.Provenance()).To(Equal([]string{"node"}))
	}
},
	Entry("BiasGelu", "input %a: f32[N,8]\n input %b: f32[8]\n %y = com.microsoft::BiasGelu(%a, %b) \"node\"\n output %y", "Add Gelu", "f32[N,8]"),
	Entry("FusedMatMul that turns and scales", "input %a: f32[N,3,8]\n input %b: f32[N,5,3]\n %y = com.microsoft::FusedMatMul(%a, %b; transA=1, transB=1, alpha=0.5) \"node\"\n output %y",
		"Transpose Transpose MatMul Mul", "f32[N,8,5]"),
	Entry("SkipLayerNormalization", "input %a: f32[N,S,8]\n input %b: f32[N,S,8]\n input %c: f32[8]\n %y = com.microsoft::SkipLayerNormalization(%a, %b, %c) \"node\"\n output %y",
		"Add LayerNormalization", "f32[N,S,8]"),
	Entry("LayerNormalization below version 17", "input %a: f32[N,8]\n input %c: f32[8]\n %y = LayerNormalization/1(%a, %c) \"node\"\n output %y", "LayerNormalization", "f32[N,8]"),
	Entry("FusedConv", "input %x: f32[N,3,8,8]\n input %w: f32[4,3,3,3]\n %y = com.microsoft::FusedConv(%x, %w; activation=\"Relu\") \"node\"\n output %y", "Conv Relu", "f32[N,4,6,6]"),
	Entry("NhwcConv, whose weights have channels last too", "input %x: f32[N,8,8,5]\n input %w: f32[4,3,3,5]\n %y = com.microsoft::NhwcConv(%x, %w; kernel_shape=[3, 3]) \"node\"\n output %y",
		"Transpose Transpose Conv Transpose", "f32[N,6,6,4]"),
	Entry("NhwcFusedConv, whose weights have not", "input %x: f32[N,8,8,5]\n input %w: f32[4,5,3,3]\n %y = com.microsoft::NhwcFusedConv(%x, %w; kernel_shape=[3, 3]) \"node\"\n output %y",
		"Transpose Conv Transpose", "f32[N,6,6,4]"),
	Entry("a result that is an operand", "input %x: f32[N,16,8,8]\n %y = com.microsoft.nchwc::ReorderInput(%x) \"node\"\n output %y", "Identity", "f32[N,16,8,8]"),
	Entry("Attention over a sequence of any length",
		"input %x: f32[N,S,8]\n input %w: f32[8,24]\n %y = com.microsoft::Attention(%x, %w; num_heads=2) \"node\"\n output %y",
		"MatMul Split Reshape Transpose Reshape Transpose Reshape Transpose Transpose MatMul Mul Softmax MatMul Transpose Reshape", "f32[N,S,8]"),
	Entry("Attention behind lengths whose number is not known to be the batch", "input %x: f32[N,S,8]\n input %w: f32[8,24]\n input %b: f32[24]\n input %m: i32[M]\n"+
		" %y = com.microsoft::Attention(%x, %w, %b, %m; num_heads=2) \"node\"\n output %y",
		"MatMul Add Split Reshape Transpose Reshape Transpose Reshape Transpose Transpose MatMul Mul Shape Squeeze Squeeze Range Cast Shape Expand Concat Concat Slice Reshape Add Slice Reshape Less "+
			"GreaterOrEqual And Where Add Softmax MatMul Transpose Reshape", "f32[N,S,8]"),
	Entry("the standard's Attention", "input %q: f32[N,4,S,8]\n input %k: f32[N,4,T,8]\n %y = Attention/23(%q, %k, %k) \"node\"\n output %y",
		"Transpose MatMul Mul Softmax MatMul", "f32[N,4,S,8]"),
	Entry("the standard's Attention whose queries share heads, behind a cache and a mask", "input %q: f32[N,S,16]\n input %k: f32[N,S,8]\n input %p: f32[N,1,P,8]\n input %m: bool[S,P+S]\n"+
		" %y, %a, %b = Attention/23(%q, %k, %k, %m, %p, %p; q_num_heads=2, kv_num_heads=1) \"node\"\n output %y",
		"Reshape Transpose Reshape Transpose Reshape Transpose Concat Concat Unsqueeze Expand Reshape Unsqueeze Expand Reshape Transpose MatMul Mul Where Add Softmax ReduceMax Equal Where MatMul Transpose Reshape", "f32[N,S,16]"),
	Entry("an Attention whose mask may be shorter than its keys", "input %q: f32[N,4,S,8]\n input %m: f32[S,M]\n %y = Attention/24(%q, %q, %q, %m) \"node\"\n output %y",
		"Transpose MatMul Mul Shape Equal Slice Where Shape Sub Shape Concat Expand Concat Shape Shape Concat Reshape Add Softmax ReduceMax Equal Where MatMul", "f32[N,4,S,8]"),
	Entry("an Attention whose mask has one column", "input %q: f32[N,4,S,8]\n input %m: f32[S,1]\n %y = Attention/24(%q, %q, %q, %m) \"node\"\n output %y", "Attention", "f32[N,4,S,8]"),
	Entry("an LSTM whose batch comes first", "input %x: f32[N,S,3]\n input %w: f32[1,8,3]\n input %r: f32[1,8,2]\n input %h: f32[N,1,2]\n"+
		" %y, _, %c = LSTM/14(%x, %w, %r, _, _, %h; layout=1) \"node\"\n output %y\n output %c", "Transpose Transpose LSTM Transpose Transpose", "f32[N,S,1,2]"),
	Entry("an LSTM whose sequence comes first", "input %x: f32[S,N,3]\n input %w: f32[1,8,3]\n input %r: f32[1,8,2]\n %y = LSTM/14(%x, %w, %r) \"node\"\n output %y", "LSTM", "f32[S,1,N,2]"),
	Entry("a GRU of an unknown rank", "input %x: f32[*]\n input %w: f32[1,6,3]\n input %r: f32[1,6,2]\n %y = GRU/14(%x, %w, %r; layout=1) \"node\"\n output %y", "GRU", "f32[?1,?2,1,2]"),
	Entry("a Resize of some axes", "input %x: f32[N,3,H,W]\n const %s = i64[2]{10,20}\n %y = Resize/19(%x, _, _, %s; axes=[3, -2], mode=\"linear\") \"node\"\n output %y",
		"Slice Slice Shape Concat Resize", "f32[N,3,20,10]"),
	Entry("a Resize of some axes by scales", "input %x: f32[N,3,8,8]\n const %s = f32[1]{2}\n %y = Resize/19(%x, _, %s; axes=[2]) \"node\"\n output %y", "Resize", "f32[N,3,16,8]"),
	Entry("a Resize that keeps ratios", "input %x: f32[N,3,8,8]\n const %s = i64[2]{10,20}\n %y = Resize/19(%x, _, _, %s; axes=[2, 3], keep_aspect_ratio_policy=\"not_larger\") \"node\"\n output %y", "Resize", "f32[N,3,10,10]"),
	Entry("the standard's LinearAttention", "input %q: f32[N,S,8]\n input %k: f32[N,S,4]\n %y = LinearAttention/27(%q, %k, %k; q_num_heads=2, kv_num_heads=1, update_rule=\"linear\") \"node\"\n output %y",
		"LinearAttention", "f32[N,S,8]"),
	Entry("the standard's CausalConvWithState", "input %x: f32[N,4,S]\n input %w: f32[4,1,3]\n %y, %z = CausalConvWithState/27(%x, %w; activation=\"silu\") \"node\"\n output %y\n output %z",
		"Pad Conv Swish Shape Slice", "f32[N,4,S]"),
	Entry("a CausalConvWithState of any number of taps", "input %x: f32[N,4,S]\n input %w: f32[4,1,K]\n %y, %z = CausalConvWithState/27(%x, %w) \"node\"\n output %y", "CausalConvWithState", "f32[N,4,S]"),
	Entry("FusedMatMul that turns what has any rank", "input %x: f32[*]\n input %w: f32[8,24]\n %y = com.microsoft::FusedMatMul(%x, %w; transA=1) \"node\"\n output %y", "FusedMatMul", "f32[*]"),
	Entry("Attention of any size", "input %x: f32[N,S,D]\n input %w: f32[D,E]\n %y = com.microsoft::Attention(%x, %w; num_heads=2) \"node\"\n output %y", "Attention", "f32[*]"),
	Entry("MultiHeadAttention of any size", "input %x: f32[N,S,D]\n %y = com.microsoft::MultiHeadAttention(%x, %x, %x; num_heads=2) \"node\"\n output %y", "MultiHeadAttention", "f32[*]"),
	Entry("RotaryEmbedding by tables of any size", "input %x: f32[N,S,D]\n input %p: i64[N,S]\n input %c: f32[M,D]\n %y = com.microsoft::RotaryEmbedding(%x, %p, %c, %c) \"node\"\n output %y", "RotaryEmbedding", "f32[*]"),
	Entry("GroupNorm of any rank", "input %x: f32[*]\n input %g: f32[8]\n %y = com.microsoft::GroupNorm(%x, %g, %g; groups=2, activation=1) \"node\"\n output %y", "GroupNorm", "f32[*]"),
	Entry("SwiGLU", "input %x: f32[N,8]\n input %z: f32[N,8]\n %y = SwiGLU/28(%x, %z; alpha=0.5) \"node\"\n output %y", "Mul Sigmoid Mul Mul", "f32[N,8]"),
	Entry("Affine", "input %x: f32[N,8]\n %y = Affine/1(%x; alpha=2.5, beta=3.5) \"node\"\n output %y", "Mul Add", "f32[N,8]"),
	Entry("Scale by one", "input %x: f32[N,8]\n %y = Scale/1(%x) \"node\"\n output %y", "Identity", "f32[N,8]"),
	Entry("ImageScaler", "input %x: f32[N,3,H,W]\n %y = ImageScaler/1(%x; scale=0.5, bias=[1.5, 2.5, 3.5]) \"node\"\n output %y", "Mul Add", "f32[N,3,H,W]"),
	Entry("Crop to borders", "input %x: f32[N,3,H,9]\n %y = Crop/1(%x; border=[1, 2, 3, 4]) \"node\"\n output %y", "Slice Slice", "f32[N,3,max(0,max(0,H-4)-min(2,H)),5]"),
	Entry("Crop to a size", "input %x: f32[N,3,9,9]\n %y = Crop/1(%x; border=[1, 2, 0, 0], scale=[3, 4]) \"node\"\n output %y", "Slice Slice", "f32[N,3,3,4]"),
	Entry("MeanVarianceNormalization below version 9", "input %x: f32[N,3,H,W]\n %y = MeanVarianceNormalization/1(%x) \"node\"\n output %y", "MeanVarianceNormalization", "f32[N,3,H,W]"),
	Entry("MeanVarianceNormalization of the mean alone", "input %x: f32[N,3,H,W]\n %y = MeanVarianceNormalization/1(%x; normalize_variance=0) \"node\"\n output %y", "ReduceMean Sub", "f32[N,3,H,W]"),
	Entry("ConstantFill of a shape", "input %s: i64[2]\n %y = ConstantFill/1(%s; input_as_shape=1, extra_shape=[4], dtype=6, value=7.5) \"node\"\n output %y", "Concat Expand", "i32[?3,?4,4]"),
	Entry("ConstantFill like another", "input %x: f32[N,3]\n %y = ConstantFill/1(%x; value=0.5) \"node\"\n output %y", "Shape Expand", "f32[N,3]"),
	Entry("ConstantFill of an attribute", "%y = ConstantFill/1(; shape=[2, 3]) \"node\"\n output %y", "Expand", "f32[2,3]"),
	Entry("CastLike", "input %x: f32[N]\n input %z: i64[]\n %y = CastLike/15(%x, %z) \"node\"\n output %y", "Cast", "i64[N]"),
)

var _ = DescribeTable("a node that nothing stands for is refused", func(text string, cause error) {
	_, _, err := expanded(text)
	Expect(err).To(MatchError(cause))
	Expect(err.Error()).To(ContainSubstring(`"node"`))
},
	Entry("an activation that is none", "input %x: f32[N,3,8,8]\n input %w: f32[4,3,3,3]\n %y = com.microsoft::FusedConv(%x, %w; activation=\"What\") \"node\"\n output %y", microsoft.ErrAttribute),
	Entry("no heads", "input %x: f32[N,S,8]\n input %w: f32[8,24]\n %y = com.microsoft::Attention(%x, %w; num_heads=0) \"node\"\n output %y", microsoft.ErrAttribute),
	Entry("weights of another size", "input %x: f32[N,32]\n const %w = u8[2,1,4]{1,2,3,4,5,6,7,8}\n input %s: f32[2,1]\n %y = com.microsoft::MatMulNBits(%x, %w, %s; K=32, N=2, block_size=32) \"node\"\n output %y",
		microsoft.ErrShape),
	Entry("blocked weights that a run knows", "input %x: f32[N,16,8,8]\n input %w: f32[16,16,3,3]\n %y = com.microsoft.nchwc::Conv(%x, %w) \"node\"\n output %y", microsoft.ErrUnsupported),
	Entry("three borders", "input %x: f32[N,3,9,9]\n %y = Crop/1(%x; border=[1, 2, 3]) \"node\"\n output %y", microsoft.ErrAttribute),
	Entry("a fill of a type that is none", "input %x: f32[N]\n %y = ConstantFill/1(%x; dtype=257) \"node\"\n output %y", microsoft.ErrAttribute),
	Entry("a fill of two shapes", "input %x: f32[N]\n %y = ConstantFill/1(%x; shape=[2]) \"node\"\n output %y", microsoft.ErrAttribute),
	Entry("heads that do not divide", "input %q: f32[N,S,8]\n input %l: i32[N]\n input %t: i32[]\n %y = com.microsoft::GroupQueryAttention(%q, _, _, _, _, %l, %t; num_heads=3, kv_num_heads=2) \"node\"\n output %y", microsoft.ErrAttribute),
	Entry("sections that are not all angles", "input %x: f32[N,S,8]\n input %p: i64[3,N,S]\n input %c: f32[9,4]\n %y = com.microsoft::MRotaryEmbedding(%x, %p, %c, %c; mrope_section=[1, 1, 1]) \"node\"\n output %y",
		microsoft.ErrAttribute),
	Entry("a dilation of nothing", "input %x: f32[N,4,S]\n input %w: f32[4,1,3]\n %y, %z = com.microsoft::CausalConvWithState(%x, %w; dilation=0) \"node\"\n output %y", microsoft.ErrAttribute),
	Entry("states of several positions", "input %x: f32[N,4,S]\n input %w: f32[4,1,3]\n %y, %z = com.microsoft::CausalConvWithState(%x, %w; state_window=2) \"node\"\n output %y", microsoft.ErrUnsupported),
	Entry("an activation of a convolution that is none", "input %x: f32[N,4,S]\n input %w: f32[4,1,3]\n %y, %z = com.microsoft::CausalConvWithState(%x, %w; activation=\"What\") \"node\"\n output %y", microsoft.ErrAttribute),
	Entry("a rule of linear attention that is none", "input %q: f32[N,S,8]\n %y, %z = com.microsoft::LinearAttention(%q, %q, %q; q_num_heads=2, kv_num_heads=2, update_rule=\"what\") \"node\"\n output %y", microsoft.ErrAttribute),
	Entry("heads of linear attention that do not divide", "input %q: f32[N,S,12]\n %y, %z = com.microsoft::LinearAttention(%q, %q, %q; q_num_heads=3, kv_num_heads=2) \"node\"\n output %y", microsoft.ErrAttribute),
	Entry("branches that do not divide", "input %x: f32[N,9]\n %y = com.microsoft::BranchwiseRMSNorm(%x; num_branches=2) \"node\"\n output %y", microsoft.ErrShape),
	Entry("gates of another number", "input %x: f32[N,8]\n input %g: f32[N,3]\n %y = com.microsoft::HyperConnectionPreMix(%x, %g; num_branches=2) \"node\"\n output %y", microsoft.ErrShape),
	Entry("blocks of no keys", "input %q: f32[1,1,16]\n input %c: f32[1,1,16,8]\n input %r: i32[1,2]\n input %t: i32[1]\n %y, %a, %b = com.microsoft::SparseAttention(%q, %q, %q, %c, %c, %r, %r, %t, %t; num_heads=2, kv_num_heads=2, sparse_block_size=0) \"node\"\n output %y",
		microsoft.ErrAttribute),
	Entry("sequences of no tokens", "input %s: i64[N]\n input %p: i64[1]\n %y, %z = com.microsoft::BifurcationDetector(%s, %s, %p; min_ngram_size=0) \"node\"\n output %y", microsoft.ErrAttribute),
	Entry("costs that are a volume", "input %x: f32[2,3,4]\n %y = com.microsoft::DynamicTimeWarping(%x) \"node\"\n output %y", microsoft.ErrShape),
	Entry("a mode of sampling that is none", "input %x: f32[1,1,4,4]\n input %r: f32[1,4]\n input %i: i32[1]\n input %s: i32[2]\n %y = com.microsoft::CropAndResize(%x, %r, %i, %s; mode=\"what\") \"node\"\n output %y", microsoft.ErrAttribute),
	Entry("experts of no token", "input %x: f32[N,8]\n input %r: f32[N,2]\n input %w: f32[2,8,8]\n %y = com.microsoft::MoE(%x, %r, %w, _, %w; k=0) \"node\"\n output %y", microsoft.ErrAttribute),
	Entry("experts of 3 bits", "input %x: f32[N,8]\n input %r: f32[N,2]\n input %w: u8[2,8,3]\n input %s: f32[2,8]\n %y = com.microsoft::QMoE(%x, %r, %w, %s, _, %w, %s; expert_weight_bits=3) \"node\"\n output %y", microsoft.ErrAttribute),
	Entry("an expression that is none", "input %x: str[N]\n %y = com.microsoft::Tokenizer(%x; mark=0, mincharnum=1, pad_value=\"\", tokenexp=\"(\") \"node\"\n output %y", microsoft.ErrAttribute),
)

// run compiles a graph of one node for the host's kernels and runs it.
func run(ctx SpecContext, text string, in map[string]tensor.Value) *tensor.Tensor {
	GinkgoHelper()
	g, err := graph.Parse(head + text + "}")
	Expect(err).NotTo(HaveOccurred())
	p, err := carve.Compile(ctx, carve.FromGraph(g), &carve.Options{Backends: []backend.Config{{Name: "cpu"}}, Verify: true})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(p.Close)
	out, err := p.Run(ctx, in)
	Expect(err).NotTo(HaveOccurred())
	return out["y"].(*tensor.Tensor)
}

var _ = DescribeTable("operands that contradict each other are typed errors of a run", func(ctx SpecContext, text string, in map[string]tensor.Value, cause error) {
	g, err := graph.Parse(head + text + "}")
	Expect(err).NotTo(HaveOccurred())
	for _, name := range []string{"reference", "cpu"} {
		p, err := carve.Compile(ctx, carve.FromGraph(g), &carve.Options{Backends: []backend.Config{{Name: name}}, Verify: true})
		if err == nil {
			_, err = p.Run(ctx, in)
			Expect(p.Close()).To(Succeed())
		}
		Expect(err).To(MatchError(cause), name)
	}
},
	Entry("places of blocks behind the last", "input %q: f32[1,1,16]\n input %c: f32[1,1,16,16]\n input %r: i32[1,2]\n input %k: i32[1,1]\n input %t: i32[1]\n"+
		" %y, %a, %b = com.microsoft::SparseAttention(%q, %q, %q, %c, %c, %r, %k, %t, %t; num_heads=1, kv_num_heads=1, sparse_block_size=16) \"node\"\n output %y", map[string]tensor.Value{
		"q": tensor.From(make([]float32, 16), 1, 1, 16), "c": tensor.From(make([]float32, 256), 1, 1, 16, 16), "r": tensor.From([]int32{0, 1}, 1, 2),
		"k": tensor.From([]int32{7}, 1, 1), "t": tensor.From([]int32{1}, 1)}, microsoft.ErrShape),
	Entry("more keys than blocks", "input %q: f32[1,1,16]\n input %c: f32[1,1,40,16]\n input %r: i32[1,2]\n input %k: i32[1,1]\n input %t: i32[1]\n"+
		" %y, %a, %b = com.microsoft::SparseAttention(%q, %q, %q, %c, %c, %r, %k, %t, %t; num_heads=1, kv_num_heads=1, sparse_block_size=16) \"node\"\n output %y", map[string]tensor.Value{
		"q": tensor.From(make([]float32, 16), 1, 1, 16), "c": tensor.From(make([]float32, 640), 1, 1, 40, 16), "r": tensor.From([]int32{0, 1}, 1, 2),
		"k": tensor.From([]int32{0}, 1, 1), "t": tensor.From([]int32{30}, 1)}, microsoft.ErrShape),
	Entry("an image that is not there", "input %x: f32[1,1,4,4]\n input %r: f32[1,4]\n input %i: i32[1]\n input %s: i32[2]\n %y = com.microsoft::CropAndResize(%x, %r, %i, %s) \"node\"\n output %y",
		map[string]tensor.Value{"x": tensor.From(make([]float32, 16), 1, 1, 4, 4), "r": tensor.From(make([]float32, 4), 1, 4), "i": tensor.From([]int32{3}, 1), "s": tensor.From([]int32{2, 2}, 2)}, microsoft.ErrShape),
	Entry("a crop of more than memory", "input %x: f32[1,1,4,4]\n input %r: f32[1,4]\n input %i: i32[1]\n input %s: i32[2]\n %y = com.microsoft::CropAndResize(%x, %r, %i, %s) \"node\"\n output %y",
		map[string]tensor.Value{"x": tensor.From(make([]float32, 16), 1, 1, 4, 4), "r": tensor.From(make([]float32, 4), 1, 4), "i": tensor.From([]int32{0}, 1), "s": tensor.From([]int32{1 << 20, 1 << 20}, 2)}, microsoft.ErrShape),
	Entry("a character that is not in the table", "input %x: i32[1,3]\n input %w: f32[2,1,2,4]\n input %b: f32[2]\n input %c: f32[5,4]\n %y = com.microsoft::WordConvEmbedding(%x, %w, %b, %c) \"node\"\n output %y",
		map[string]tensor.Value{"x": tensor.From([]int32{9, 9, 9}, 1, 3), "w": tensor.From(make([]float32, 16), 2, 1, 2, 4), "b": tensor.From(make([]float32, 2), 2), "c": tensor.From(make([]float32, 20), 5, 4)}, microsoft.ErrShape),
	Entry("a place behind the source", "input %s: i64[N]\n input %c: i64[M]\n input %p: i64[1]\n input %q: i64[K]\n %y, %z = com.microsoft::BifurcationDetector(%s, %c, %p, %q) \"node\"\n output %y",
		map[string]tensor.Value{"s": tensor.From([]int64{1, 2}, 2), "c": tensor.From([]int64{1}, 1), "p": tensor.From([]int64{9}, 1), "q": tensor.From([]int64{1}, 1)}, microsoft.ErrShape),
)

var _ = Describe("results follow from the definition", func() {
	It("weights of 4 bits: low bits first, in blocks of a scale and a zero point, the last block in part", func(ctx SpecContext) {
		const k, n, block, blocks = 40, 3, 32, 2
		bytes, zeros := make([]byte, n*blocks*block/2), []byte{0x3a, 0x71, 0xf0}
		for i := range bytes {
			bytes[i] = byte(i*37 + 11)
		}
		scales, x := make([]float32, n*blocks), make([]float32, 2*k)
		for i := range scales {
			scales[i] = float32(i+1) / 8
		}
		for i := range x {
			x[i] = float32(i%7) - 3
		}
		g := "input %x: f32[M,40]\n input %b: u8[3,2,16]\n input %s: f32[3,2]\n input %z: u8[3]\n" +
			" %y = com.microsoft::MatMulNBits(%x, %b, %s, %z; K=40, N=3, block_size=32, bits=4) \"node\"\n output %y"
		y := run(ctx, g, map[string]tensor.Value{"x": tensor.From(x, 2, k), "b": tensor.From(bytes, n, blocks, block/2), "s": tensor.From(scales, n, blocks), "z": tensor.From(zeros, n)})
		want := make([]float32, 2*n)
		for r := range 2 {
			for c := range n {
				for i := range k {
					q := bytes[(c*blocks*block+i)/2] >> (i % 2 * 4) & 15
					z := zeros[c] >> (i / block * 4) & 15
					want[r*n+c] += x[r*k+i] * (float32(q) - float32(z)) * scales[c*blocks+i/block]
				}
			}
		}
		for i, v := range tensor.Elements[float32](y) {
			Expect(v).To(BeNumerically("~", want[i], 1e-3))
		}
	})
	DescribeTable("attention of nothing is nothing", func(ctx SpecContext, backendName string, batch, length int) {
		g, err := graph.Parse(head + "input %q: f32[B,S,16]\n input %k: f32[B,3,16]\n %y = com.microsoft::MultiHeadAttention(%q, %k, %k; num_heads=4) \"node\"\n output %y}")
		Expect(err).NotTo(HaveOccurred())
		p, err := carve.Compile(ctx, carve.FromGraph(g), &carve.Options{Backends: []backend.Config{{Name: backendName}}, Verify: true})
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(p.Close)
		q, k := tensor.From([]float32{}, batch, length, 16), tensor.From(make([]float32, batch*3*16), batch, 3, 16)
		out, err := p.Run(ctx, map[string]tensor.Value{"q": q, "k": k})
		Expect(err).NotTo(HaveOccurred())
		Expect(out["y"].(*tensor.Tensor).Shape).To(Equal([]int{batch, length, 16}))
	},
		Entry("no query, on reference", "reference", 1, 0),
		Entry("no batch, on reference", "reference", 0, 2),
		Entry("no query, on cpu", "cpu", 1, 0),
		Entry("no batch, on cpu", "cpu", 0, 2),
	)
	It("one query of two heads behind a cache of one, which they share", func(ctx SpecContext) {
		q, k, v := []float32{1, 2, 3, 4}, []float32{1, -1}, []float32{5, 6}
		pastK, pastV := []float32{0.5, 1}, []float32{-1, 2}
		y := run(ctx, "input %q: f32[1,1,4]\n input %k: f32[1,1,2]\n input %v: f32[1,1,2]\n input %pk: f32[1,1,P,2]\n input %pv: f32[1,1,P,2]\n input %l: i32[1]\n input %t: i32[1]\n"+
			" %y = com.microsoft::GroupQueryAttention(%q, %k, %v, %pk, %pv, %l, %t; num_heads=2, kv_num_heads=1) \"node\"\n output %y", map[string]tensor.Value{
			"q": tensor.From(q, 1, 1, 4), "k": tensor.From(k, 1, 1, 2), "v": tensor.From(v, 1, 1, 2), "pk": tensor.From(pastK, 1, 1, 1, 2), "pv": tensor.From(pastV, 1, 1, 1, 2),
			"l": tensor.From([]int32{1}, 1), "t": tensor.From([]int32{2}, 1)})
		got := tensor.Elements[float32](y)
		for h := range 2 {
			a := math.Exp(float64(q[2*h]*pastK[0]+q[2*h+1]*pastK[1]) / math.Sqrt2)
			b := math.Exp(float64(q[2*h]*k[0]+q[2*h+1]*k[1]) / math.Sqrt2)
			for i := range 2 {
				Expect(got[2*h+i]).To(BeNumerically("~", (a*float64(pastV[i])+b*float64(v[i]))/(a+b), 1e-5))
			}
		}
	})
	It("tokens between separators, padded and marked", func(ctx SpecContext) {
		y := run(ctx, "input %x: str[N]\n %y = com.microsoft::Tokenizer(%x; mark=1, mincharnum=1, pad_value=\"#\", separators=[\" \", \",\"]) \"node\"\n output %y",
			map[string]tensor.Value{"x": tensor.FromStrings([]string{"a b,c", "ü"}, 2)})
		Expect(y.Shape).To(Equal([]int{2, 5}))
		Expect(y.Strings).To(Equal([]string{"\x02", "a", "b", "c", "\x03", "\x02", "ü", "\x03", "#", "#"}))
	})
	It("tokens between separators that are characters, classes and expressions, as these cut one by one", func(ctx SpecContext) {
		r := rand.New(rand.NewPCG(11, 12))
		pool := []string{" ", ",", "\\.", "[a-c]", "é", "x+", "[0-9]+", "ab", "(?i)d", "^b", "e|f"}
		for range 60 {
			separators := make([]string, 1+r.IntN(3))
			for i := range separators {
				separators[i] = pool[r.IntN(len(pool))]
			}
			letters := []rune(" ,.abcdefxD19éü")
			text := make([]rune, 1+r.IntN(30))
			for i := range text {
				text[i] = letters[r.IntN(len(letters))]
			}
			least := 1 + r.IntN(2)
			want := []string{string(text)}
			for _, s := range separators {
				re := regexp.MustCompile(s)
				re.Longest()
				var parts []string
				for _, p := range want {
					parts = append(parts, re.Split(p, -1)...)
				}
				want = parts
			}
			want = slices.DeleteFunc(want, func(s string) bool { return len([]rune(s)) < least })
			quoted := make([]string, len(separators))
			for i, s := range separators {
				quoted[i] = strconv.Quote(s)
			}
			node := fmt.Sprintf("input %%x: str[1]\n %%y = com.microsoft::Tokenizer(%%x; mark=0, mincharnum=%d, pad_value=\"\", separators=[%s])\n output %%y", least, strings.Join(quoted, ", "))
			Expect(run(ctx, node, map[string]tensor.Value{"x": tensor.FromStrings([]string{string(text)}, 1)}).Strings).To(HaveExactElements(want), "%q by %q", string(text), separators)
		}
	})
	It("tokens that are characters of a class, or runs of them, as the expression finds them", func(ctx SpecContext) {
		r := rand.New(rand.NewPCG(5, 6))
		alphabet := []rune("ab Z_09\n-éüß日本😀")
		for _, expr := range []string{".", "[a-z]+", "[^ ]+", `\\w+`, `\\d`, "(?i)[a-z]+", "[a-z]+?", "(?s).", "[é-ü]+", "[a-z]*b", "a"} {
			var in []string
			for range 20 {
				var s []rune
				for range r.IntN(12) {
					s = append(s, alphabet[r.IntN(len(alphabet))])
				}
				in = append(in, string(s))
			}
			y := run(ctx, "input %x: str[N]\n %y = com.microsoft::Tokenizer(%x; mark=0, mincharnum=1, pad_value=\"#\", tokenexp=\""+expr+"\") \"node\"\n output %y",
				map[string]tensor.Value{"x": tensor.FromStrings(in, len(in))})
			re := regexp.MustCompile(strings.ReplaceAll(expr, `\\`, `\`))
			re.Longest()
			for i, s := range in {
				want := slices.DeleteFunc(re.FindAllString(s, -1), func(t string) bool { return t == "" })
				for len(want) < y.Shape[1] {
					want = append(want, "#")
				}
				Expect(y.Strings[i*y.Shape[1]:(i+1)*y.Shape[1]]).To(Equal(want), "%s of %q", expr, s)
			}
		}
	})
	It("the sum of quantised numbers, rounded once", func(ctx SpecContext) {
		y := run(ctx, "input %a: u8[3]\n input %b: u8[1]\n const %s = f32[]{0.5}\n const %t = f32[]{0.25}\n const %z = u8[]{10}\n"+
			" %y = com.microsoft::QLinearAdd(%a, %s, %z, %b, %t, %z, %s, %z) \"node\"\n output %y",
			map[string]tensor.Value{"a": tensor.From([]uint8{0, 10, 255}, 3), "b": tensor.From([]uint8{13}, 1)})
		Expect(tensor.Elements[uint8](y)).To(Equal([]uint8{2, 12, 255})) // 1.5 steps more: ties to even
	})
	It("NGramRepeatBlock, of tokens that lie anywhere", func(ctx SpecContext) {
		g, err := graph.Parse(head + "input %i: i64[2,5]\n input %s: f32[2,4]\n %y = com.microsoft::NGramRepeatBlock(%i, %s; ngram_size=3) \"node\"\n output %y\n}")
		Expect(err).NotTo(HaveOccurred())
		Expect(graph.InferGraph(g)).To(Succeed())
		ids := tensor.From([]int64{1, 2, 3, 1, 2, 0, 0, 0, 1, 0}, 2, 5)
		ids.Data, ids.Offset = append([]byte{0}, ids.Bytes()...), 1
		out, err := reference.Evaluate(ctx, g.Outputs[0].Producer, []tensor.Value{ids, tensor.From([]float32{1, 2, 3, 4, 5, 6, 7, 8}, 2, 4)})
		Expect(err).NotTo(HaveOccurred())
		Expect(tensor.Elements[float32](out[0].(*tensor.Tensor))).To(Equal([]float32{1, 2, 3, float32(math.Inf(-1)), 5, 6, 7, 8}))
	})
	It("results of own kernels lie where they are to lie, if numbers can", func(ctx SpecContext) {
		g, err := graph.Parse(head + "input %i: i64[1,3]\n input %s: f32[1,3]\n %y = com.microsoft::NGramRepeatBlock(%i, %s; ngram_size=1) \"node\"\n output %y\n}")
		Expect(err).NotTo(HaveOccurred())
		Expect(graph.InferGraph(g)).To(Succeed())
		want := []float32{1, float32(math.Inf(-1)), 3}
		for _, at := range []int{0, 1} {
			place := &tensor.Tensor{DType: tensor.Float32, Shape: []int{1, 3}, Data: make([]byte, 16), Offset: at}
			y, err := reference.Run(ctx, g.Outputs[0].Producer, []tensor.Value{tensor.From([]int64{1, 1, 1}, 1, 3), tensor.From([]float32{1, 2, 3}, 1, 3)},
				func(int, tensor.DType, []int) (*tensor.Tensor, error) { return place, nil })
			Expect(err).NotTo(HaveOccurred())
			Expect(tensor.Elements[float32](y[0].(*tensor.Tensor))).To(Equal(want))
			if at == 0 {
				Expect(y[0]).To(BeIdenticalTo(place))
			} else {
				Expect(y[0]).NotTo(BeIdenticalTo(place))
			}
		}
	})
	It("MurmurHash3 of numbers is that of their bytes", func(ctx SpecContext) {
		numbers := []int64{0, 1, -1, 1 << 40, 0x0123456789abcdef}
		for _, dt := range []tensor.DType{tensor.Int32, tensor.Int64, tensor.Float64} {
			x, err := tensor.New(dt, len(numbers))
			Expect(err).NotTo(HaveOccurred())
			var texts []string
			for i, n := range numbers {
				b := x.Bytes()[i*dt.Size():][:dt.Size()]
				copy(b, binary.LittleEndian.AppendUint64(nil, uint64(n)))
				texts = append(texts, string(b))
			}
			hash := func(typ string, x *tensor.Tensor) *tensor.Tensor {
				return run(ctx, "input %x: "+typ+"[N]\n %y = com.microsoft::MurmurHash3(%x; seed=7, positive=0) \"node\"\n output %y", map[string]tensor.Value{"x": x})
			}
			Expect(hash(dt.String(), x)).To(BeComparableTo(hash("str", tensor.FromStrings(texts, len(texts)))))
		}
	})
	It("MurmurHash3, whose values are known", func(ctx SpecContext) {
		y := run(ctx, "input %x: str[N]\n %y = com.microsoft::MurmurHash3(%x) \"node\"\n output %y", map[string]tensor.Value{"x": tensor.FromStrings([]string{"", "hello", "test"}, 3)})
		Expect(tensor.Elements[uint32](y)).To(Equal([]uint32{0, 0x248bfa47, 0xba6bd213}))
	})
})

var _ = DescribeTable("weights of 4 bits on every level of cpu are those of reference", func(ctx SpecContext, level string) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 30 {
		block, n, rows := 32<<r.IntN(3), 1+r.IntN(70), 1+r.IntN(20)
		k := 1 + r.IntN(300)
		blocks := (k + block - 1) / block
		weights, zeros := make([]byte, n*blocks*block/2), make([]byte, n*((blocks+1)/2))
		for _, list := range [][]byte{weights, zeros} {
			for i := range list {
				list[i] = byte(r.UintN(256))
			}
		}
		floats := func(n int) []float32 {
			v := make([]float32, n)
			for i := range v {
				v[i] = float32(r.NormFloat64())
			}
			return v
		}
		g := graph.New("g")
		g.Opsets[microsoft.Domain] = 1
		in := []*graph.Value{g.AddInput("x", graph.TensorType(tensor.Float32, graph.Shape{graph.Sym("B"), graph.Sym("M"), graph.D(k)})),
			g.AddConst("w", tensor.From(weights, n, blocks, block/2)), g.AddConst("s", tensor.From(floats(n*blocks), n*blocks)), nil, nil, nil}
		if r.IntN(2) == 0 {
			in[3] = g.AddConst("z", tensor.From(zeros, len(zeros)))
		}
		if r.IntN(2) == 0 {
			in[5] = g.AddConst("b", tensor.From(floats(n), n))
		}
		node := g.AddNode(graph.NodeSpec{Op: graph.Op{Domain: microsoft.Domain, Name: "MatMulNBits"}, Name: "node", Inputs: in, Outputs: []string{"y"},
			Attrs: []graph.Attr{graph.IntAttr("K", int64(k)), graph.IntAttr("N", int64(n)), graph.IntAttr("block_size", int64(block))}})
		g.SetOutputs(node.Outputs[0])
		model := carve.FromGraph(g)
		x := tensor.From(floats(2*rows*k), 2, rows, k)
		var y [2]*tensor.Tensor
		for i, c := range []backend.Config{{Name: "cpu", Options: map[string]string{"isa": level}}, {Name: "reference"}} {
			p, err := carve.Compile(ctx, model, &carve.Options{Backends: []backend.Config{c}, Strict: true, Verify: true})
			if errors.Is(err, backend.ErrOption) {
				Skip(err.Error())
			}
			Expect(err).NotTo(HaveOccurred())
			out, err := p.Run(ctx, map[string]tensor.Value{"x": x})
			Expect(err).NotTo(HaveOccurred())
			y[i] = out["y"].(*tensor.Tensor)
			Expect(p.Close()).To(Succeed())
		}
		Expect(y[0].Shape).To(Equal([]int{2, rows, n}))
		want := tensor.Elements[float32](y[1])
		for i, v := range tensor.Elements[float32](y[0]) {
			Expect(v).To(BeNumerically("~", want[i], 2e-3*(1+math.Abs(float64(want[i])))))
		}
	}
},
	Entry(nil, "portable"), Entry(nil, "avx2"), Entry(nil, "avx512"),
)

var _ = Describe("the table of operators", func() {
	It("is in the documentation", func() {
		doc, err := os.ReadFile("doc.go")
		Expect(err).NotTo(HaveOccurred())
		list := microsoft.Operators()
		Expect(len(list)).To(BeNumerically(">", 70))
		standard, rest, ok := strings.Cut(string(doc), "//\town\n")
		Expect(ok).To(BeTrue())
		own, _, _ := strings.Cut(rest, "refused")
		for _, x := range list {
			if x.Op.Domain != microsoft.Domain {
				continue
			}
			where := own
			if x.Standard {
				where = standard
			}
			Expect(where).To(MatchRegexp(`[\t ]`+x.Op.Name+`[,\n]`), x.Op.Name)
		}
	})
})
