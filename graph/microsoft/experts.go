package microsoft

import (
	"fmt"
	"math"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

// expertOperators are mixtures of experts: every token goes through those k of some networks of two layers that its routing favours.
// No standard operators say that without running all of them.
var expertOperators = []operator{
	{name: "MoE", schema: "in input:T router_probs:T fc1_experts_weights:T fc1_experts_bias?:T fc2_experts_weights:T fc2_experts_bias?:T " +
		"fc3_experts_weights?:T fc3_experts_bias?:T\nout output:T\nat " + expertsText + "\nty T=bfloat16,float,float16",
		infer: inferExperts, eval: (*call).experts},
	{name: "QMoE", schema: "in input:T router_probs:T fc1_experts_weights:T1 fc1_scales?:T2 fc1_experts_bias?:T fc2_experts_weights:T1 fc2_scales?:T2 " +
		"fc2_experts_bias?:T fc3_experts_weights?:T1 fc3_scales?:T2 fc3_experts_bias?:T fc1_zero_points?:T1 fc2_zero_points?:T1 fc3_zero_points?:T1 " +
		"router_weights?:T fc1_global_scale?:T4 fc2_global_scale?:T4 fc1_act_scale?:T4 fc2_act_scale?:T4 fc1_act_block_scale?:T2 fc2_act_block_scale?:T2\n" +
		"out output:T\nat " + expertsText + " accuracy_level:int=0 block_size:int=0 expert_weight_bits:int=4 fc1_expert_weight_bits:int fc2_expert_weight_bits:int " +
		"fc3_expert_weight_bits:int quant_type:string=\"int\" weights_prepacked:int=-1\nty T=bfloat16,float,float16 T1=float8e4m3fn,uint8 " +
		"T2=bfloat16,float,float16,float8e4m3fn,float8e8m0 T4=float",
		infer: inferExperts, eval: (*call).experts},
}

const expertsText = "activation_alpha:float=1 activation_beta:float=0 activation_type:string=\"relu\" k:int=1 normalize_routing_weights:int=0 " +
	"swiglu_fusion:int=0 swiglu_limit:float use_sparse_mixer:int=0"

// expertActivations are functions of a layer's results. That of Gelu is the one with a tangent, as ONNX Runtime has it here.
var expertActivations = map[string]func(x float64) float64{
	"identity": func(x float64) float64 { return x },
	"relu":     func(x float64) float64 { return max(x, 0) },
	"silu":     func(x float64) float64 { return x / (1 + math.Exp(-x)) },
	"gelu":     func(x float64) float64 { return x / 2 * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x))) },
	"swiglu":   nil, // of two numbers
}

// Experts is what a node of MoE or QMoE says beside its shapes.
type Experts struct {
	Layers             [3]ExpertLayer // the first, the second, and one beside the first
	Chosen             int            // experts of a token
	Mix                int            // the input of weights that results are mixed by, -1 where these are a softmax of the routing
	OfChosen           bool           // weights of the chosen experts are divided by their sum, not by that of all
	Activation         string
	Fused, Turns       bool // the first layer has both operands of SwiGLU, by turns or one behind the other
	Alpha, Beta, Limit float32
}

// ExpertLayer are the inputs of one layer of all experts, -1 where the operator has none.
type ExpertLayer struct {
	Weights, Bias, Scales, Zeros int
	Bits                         int // of an integer; 0 where weights are numbers
	Block                        int // integers with one scale, 0 for a row
}

// ReadExperts reads a node of MoE or QMoE.
func ReadExperts(n *graph.Node) (*Experts, error) {
	e := &Experts{Layers: [3]ExpertLayer{{Weights: 2, Bias: 3, Scales: -1, Zeros: -1}, {Weights: 4, Bias: 5, Scales: -1, Zeros: -1}, {Weights: 6, Bias: 7, Scales: -1, Zeros: -1}},
		Chosen: int(min(n.Int("k", 1), math.MaxInt32)), Mix: -1, OfChosen: n.Int("normalize_routing_weights", 0) != 0, Activation: n.Str("activation_type", "relu"),
		Alpha: n.Float("activation_alpha", 1), Beta: n.Float("activation_beta", 0), Limit: n.Float("swiglu_limit", math.MaxFloat32)}
	fusion := n.Int("swiglu_fusion", 0)
	e.Fused, e.Turns = e.Activation == "swiglu" && fusion != 0, fusion == 1
	_, known := expertActivations[e.Activation]
	switch {
	case !known || fusion < 0 || fusion > 2 || e.Chosen < 1:
		return nil, fmt.Errorf("%w: activation_type %q, swiglu_fusion %d, k %d", ErrAttribute, e.Activation, fusion, e.Chosen)
	case n.Int("use_sparse_mixer", 0) != 0 || n.Str("quant_type", "int") != "int" || n.Int("weights_prepacked", -1) > 0:
		return nil, fmt.Errorf("%w: a sparse mixer, weights of %q, or weights packed for a device", ErrUnsupported, n.Str("quant_type", "int"))
	}
	if n.Op.Name == "MoE" {
		return e, nil
	}
	for i := range e.Layers {
		bits := n.Int(fmt.Sprintf("fc%d_expert_weight_bits", i+1), n.Int("expert_weight_bits", 4))
		block := n.Int("block_size", 0)
		if bits != 2 && bits != 4 && bits != 8 || block != 0 && block < 16 || block > math.MaxInt32 {
			return nil, fmt.Errorf("%w: %d bits in blocks of %d", ErrAttribute, bits, block)
		}
		e.Layers[i] = ExpertLayer{Weights: 2 + 3*i, Bias: 4 + 3*i, Scales: 3 + 3*i, Zeros: 11 + i, Bits: int(bits), Block: int(block)}
	}
	if n.Input(14) != nil {
		e.Mix = 14
	} else {
		e.OfChosen = true
	}
	return e, nil
}

func inferExperts(c *graph.Inference) error {
	if s := c.Shape(0); s != nil && len(s) != 2 && len(s) != 3 {
		return fmt.Errorf("%w: tokens of rank %d", ErrShape, len(s))
	}
	if _, err := ReadExperts(c.Node); err != nil {
		return err
	}
	c.SetType(0, c.Type(0))
	return nil
}

// ZeroPoints returns the zero points of layer i of a node whose zero points are constant, or absent: of all blocks, or one for all.
func (e *Experts) ZeroPoints(n *graph.Node, i, experts, rows, blocks int) ([]float32, error) {
	var t *tensor.Tensor
	if v := n.Input(e.Layers[i].Zeros); v != nil {
		if t = v.Const; t == nil {
			return nil, fmt.Errorf("%v: %w: zero points that are not constant", n, ErrUnsupported)
		}
	}
	zeros, err := e.Layers[i].zeros(t, experts, rows, blocks)
	if err != nil {
		return nil, fmt.Errorf("%v: %w", n, err)
	}
	return zeros, nil
}
