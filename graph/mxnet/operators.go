package mxnet

import (
	"maps"
	"slices"
	"sync"

	"github.com/carve-dev/carve/graph"
)

// Support says what becomes of an operator.
type Support uint8

// The kinds of support.
const (
	Standard Support = iota // it becomes standard operators of ONNX
	Own                     // it becomes a node of Domain, alone or with standard ones
	Refused                 // a model with it is not loaded
)

// String returns "standard", "own" or "refused".
func (s Support) String() string {
	switch s {
	case Standard:
		return "standard"
	case Own:
		return "own"
	case Refused:
		return "refused"
	}
	return "?"
}

// operator is a row of the table of operators.
type operator struct {
	support   Support
	note      string // why it is refused
	do        func(*op) []*graph.Value
	takesReal bool // its inputs may be numbers in place of 32-bit integers
}

// table is the table of operators, which most programs never ask for. It is made by a function, since operators with bodies translate
// others.
var table struct {
	once sync.Once
	rows map[string]operator
}

// operators returns the table, by MXNet's names.
func operators() map[string]operator {
	table.once.Do(func() {
		table.rows = map[string]operator{}
		for _, family := range []map[string]operator{elementwiseOperators(), layerOperators(), poolingOperators(), shapeOperators(),
			indexOperators(), reduceOperators(), creationOperators(), algebraOperators(), imageOperators(), recurrentOperators(),
			controlOperators(), quantisedOperators(), detectionOperators(), furtherOperators(), numpyOperators(), linearOperators(), pictureOperators(), refusedOperators()} {
			for name, x := range family {
				if _, twice := table.rows[name]; twice {
					panic("mxnet: two translations of " + name)
				}
				table.rows[name] = x
			}
		}
		for second, first := range secondNames {
			if _, twice := table.rows[second]; twice {
				panic("mxnet: two translations of " + second)
			}
			table.rows[second] = table.rows[first]
		}
		for _, name := range storageNames {
			table.rows["_sparse_"+name] = table.rows[name]
		}
	})
	return table.rows
}

// secondNames are names of MXNet 2.0 for operators that have another name since 1.x.
var secondNames = map[string]string{
	"_npi_amax": "_npi_max", "_npi_amin": "_npi_min", "_npi_amp_cast": "amp_cast", "_npi_amp_multicast": "amp_multicast",
	"_npi_atleast_1d": "_np_atleast_1d", "_npi_atleast_2d": "_np_atleast_2d", "_npi_atleast_3d": "_np_atleast_3d", "_npi_diag": "_np_diag",
	"_npi_diagflat": "_np_diagflat", "_npi_diagonal": "_np_diagonal", "_npi_repeat": "repeat", "_npi_roll": "_np_roll", "_npi_trace": "_np_trace",
	"_npi_unravel_index": "_unravel_index", "_npx_add_n": "add_n", "_npx_box_decode": "_contrib_box_decode", "_npx_box_iou": "_contrib_box_iou",
	"_npx_box_nms": "_contrib_box_nms", "_npx_broadcast_greater": "broadcast_greater", "_npx_broadcast_like": "broadcast_like",
	"_npx_contrib_quantize": "_contrib_quantize", "_npx_contrib_quantize_v2": "_contrib_quantize_v2", "_npx_digamma": "digamma",
	"_npx_interleaved_matmul_encdec_qk": "_contrib_interleaved_matmul_encdec_qk", "_npx_interleaved_matmul_encdec_valatt": "_contrib_interleaved_matmul_encdec_valatt",
	"_npx_interleaved_matmul_selfatt_qk": "_contrib_interleaved_matmul_selfatt_qk", "_npx_interleaved_matmul_selfatt_valatt": "_contrib_interleaved_matmul_selfatt_valatt",
	"_npx_modulated_deformable_convolution": "_contrib_ModulatedDeformableConvolution", "_npx_norm": "norm", "_npx_pad": "Pad",
	"_npx_quantized_act": "_contrib_quantized_act", "_npx_quantized_conv": "_contrib_quantized_conv",
	"_npx_quantized_elemwise_add": "_contrib_quantized_elemwise_add", "_npx_quantized_elemwise_mul": "_contrib_quantized_elemwise_mul",
	"_npx_quantized_embedding": "_contrib_quantized_embedding", "_npx_quantized_flatten": "_contrib_quantized_flatten",
	"_npx_quantized_fully_connected": "_contrib_quantized_fully_connected", "_npx_quantized_pooling": "_contrib_quantized_pooling",
	"_npx_requantize": "_contrib_requantize", "_npx_round_ste": "_contrib_round_ste", "_npx_sequence_last": "SequenceLast",
	"_npx_sequence_reverse": "SequenceReverse", "_npx_sign_ste": "_contrib_sign_ste", "_npx_slice_channel": "SliceChannel",
	"_npx_slice_like": "slice_like", "_npx_softsign": "softsign", "_npx_stop_gradient": "BlockGrad", "_npx_sync_batch_norm": "_contrib_SyncBatchNorm",
}

// storageNames are operators that MXNet knows under a second name, with _sparse_ in front: they compute the same of dense operands.
var storageNames = []string{"ElementWiseSum", "Embedding", "FullyConnected", "LinearRegressionOutput", "LogisticRegressionOutput",
	"MAERegressionOutput", "abs", "add_n", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctanh", "broadcast_add", "broadcast_div",
	"broadcast_minus", "broadcast_mul", "broadcast_plus", "broadcast_sub", "cast_storage", "cbrt", "ceil", "clip", "concat", "cos", "cosh",
	"degrees", "dot", "elemwise_add", "elemwise_div", "elemwise_mul", "elemwise_sub", "exp", "expm1", "fix", "floor", "gamma", "gammaln",
	"log", "log10", "log1p", "log2", "make_loss", "mean", "negative", "norm", "radians", "relu", "rint", "round", "rsqrt", "sigmoid", "sign",
	"sin", "sinh", "slice", "sqrt", "square", "stop_gradient", "sum", "tan", "tanh", "trunc", "where", "zeros_like"}

// Operator is an operator of MXNet and what becomes of it.
type Operator struct {
	Name    string
	Support Support
	Reason  string // why it is refused
}

// Operators returns every operator that is known, sorted by name.
func Operators() []Operator {
	var out []Operator
	for _, name := range slices.Sorted(maps.Keys(operators())) {
		x := operators()[name]
		out = append(out, Operator{name, x.support, x.note})
	}
	return out
}

// single makes a row of a function with one result.
func single(f func(*op) *graph.Value) operator {
	return operator{do: func(o *op) []*graph.Value { return []*graph.Value{f(o)} }}
}

// own marks a row.
func own(x operator) operator {
	x.support = Own
	return x
}

// named gives several names to one row.
func named(table map[string]operator, x operator, names ...string) {
	for _, name := range names {
		table[name] = x
	}
}

// refusedOperators are those that nobody needs in inference, or that cannot be said.
func refusedOperators() map[string]operator {
	table := map[string]operator{}
	refuse := func(reason string, names ...string) {
		named(table, operator{support: Refused, note: reason}, names...)
	}
	refuse("it is for training", "_contrib_MultiBoxTarget", "CTCLoss", "ctc_loss", "_contrib_CTCLoss", "softmax_cross_entropy",
		"sgd_update", "sgd_mom_update", "adam_update", "rmsprop_update", "ftrl_update", "signsgd_update", "multi_sgd_update",
		"_contrib_bipartite_matching", "_contrib_box_encode", "_npx_multibox_target", "_contrib_ctc_loss", "_contrib_calibrate_entropy",
		"_npx_ctc_loss", "_npx_bipartite_matching", "_npx_box_encode", "_npx_contrib_calibrate_entropy")
	refuse("its results are random", "_random_uniform", "_random_normal", "_random_gamma", "_random_poisson", "_random_exponential",
		"_sample_uniform", "_sample_normal", "_sample_multinomial", "_shuffle", "_npi_uniform", "_npi_normal", "_npi_bernoulli",
		"_npi_multinomial", "_npi_choice", "_npi_exponential", "_npi_gamma", "_npi_gumbel", "_npi_laplace", "_npi_logistic", "_npi_normal_n",
		"_npi_pareto", "_npi_random_randint", "_npi_rayleigh", "_npi_shuffle", "_npi_uniform_n", "_npi_weibull", "_npx__random_categorical")
	refuse("it runs code of the model's user", "Custom", "_CustomFunction", "_TVMOp", "_npi_Custom")
	refuse("sparse storage is not kept", "cast_storage", "_sparse_retain", "_contrib_getnnz")
	refuse("it is not translated yet", "Proposal", "_contrib_Proposal", "_contrib_MultiProposal", "_contrib_PSROIPooling",
		"_contrib_DeformablePSROIPooling",
		"_contrib_fft", "_contrib_ifft", "_contrib_count_sketch", "_contrib_hawkesll", "_linalg_gelqf", "linalg_gelqf", "_linalg_syevd",
		"_npi_svd", "_npi_eig", "_npi_eigh", "_npi_eigvals", "_npi_eigvalsh", "_npi_pinv", "_npi_pinv_scalar_rcond", "_npi_tensorinv",
		"_npi_tensorsolve", "_histogram", "_npi_histogram", "_npi_bincount", "_npi_percentile", "_unique", "_npi_unique",
		"_npi_insert_scalar", "_npi_insert_slice", "_npi_insert_tensor", "_npi_delete", "_npi_boolean_mask_assign_tensor", "_npi_ediff1d",
		"_npi_lcm", "_npi_lcm_scalar", "_npi_diag_indices_from", "_npi_average", "_npi_norm", "_npi_powerd",
		"_contrib_dgl_subgraph", "_contrib_RROIAlign", "_contrib_quantize_asym", "_contrib_quantized_rnn", "_contrib_edge_id",
		"_npi_advanced_indexing", "_npi_advanced_indexing_multiple", "_npi_bitwise_left_shift", "_npi_bitwise_right_shift", "_npi_cross",
		"_npi_fill_diagonal", "_npi_floor_divide", "_npi_floor_divide_scalar", "_npi_rfloor_divide_scalar", "_npi_fmax_scalar", "_npi_fmin_scalar",
		"_npi_fmod_scalar", "_npi_rfmod_scalar", "_npi_gcd", "_npi_gcd_scalar", "_npi_interp", "_npi_kron", "_npi_logaddexp",
		"_npi_logaddexp_scalar", "_npi_lstsq", "_npi_matrix_rank", "_npi_qr", "_npi_rollaxis", "_npi_tri", "_npi_tril_indices", "_npx_index_add",
		"_npx_index_update", "_npx_masked_softmax", "_npx_masked_log_softmax", "masked_softmax", "masked_log_softmax", "_npx_quantized_npi_add",
		"_npx_quantized_reshape", "_npx_quantized_transpose", "_npx_sldwin_atten_context", "_npx_sldwin_atten_mask_like",
		"_npx_sldwin_atten_score", "_npx_intgemm_fully_connected")
	return table
}
