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
			controlOperators(), quantisedOperators(), detectionOperators(), furtherOperators(), numpyOperators(),
			linearOperators(), pictureOperators(), maskedOperators(), editOperators(), proposalOperators(),
			statisticsOperators(), matrixOperators(), regionOperators(), refusedOperators()} {
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

// secondNames are names of operators that have another name, too: those of MXNet 2.0 for what 1.x has, and others.
var secondNames = map[string]string{
	"_contrib_gradientmultiplier": "make_loss", "_npx_batch_norm_with_relu": "_contrib_BatchNormWithReLU", "_sg_onednn_batch_dot": "batch_dot",
	"_zeros_without_dtype": "_zeros", "_scatter_elemwise_div": "elemwise_div", "_scatter_plus_scalar": "_plus_scalar",
	"_scatter_minus_scalar": "_minus_scalar", "_contrib_quantized_reshape": "_npx_quantized_reshape",
	"quantized_reshape": "_npx_quantized_reshape", "_contrib_quantized_transpose": "_npx_quantized_transpose",
	"quantized_transpose": "_npx_quantized_transpose",
	"_npi_amax":           "_npi_max", "_npi_amin": "_npi_min", "_npi_amp_cast": "amp_cast", "_npi_amp_multicast": "amp_multicast",
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
	"_contrib_quantized_npi_add": "_contrib_quantized_elemwise_add", "_npx_quantized_npi_add": "_contrib_quantized_elemwise_add",
	"_npx_contrib_quantized_rnn": "_contrib_quantized_rnn",
	"_npx_requantize":            "_contrib_requantize", "_npx_round_ste": "_contrib_round_ste", "_npx_sequence_last": "SequenceLast",
	"_npx_sequence_reverse": "SequenceReverse", "_npx_sign_ste": "_contrib_sign_ste", "_npx_slice_channel": "SliceChannel",
	"_npx_slice_like": "slice_like", "_npx_softsign": "softsign", "_npx_stop_gradient": "BlockGrad", "_npx_sync_batch_norm": "_contrib_SyncBatchNorm",
}

// storageNames are operators that MXNet knows under a second name, with _sparse_ in front: they compute the same of dense operands.
var storageNames = []string{"ElementWiseSum", "Embedding", "FullyConnected", "LinearRegressionOutput", "LogisticRegressionOutput",
	"MAERegressionOutput", "abs", "add_n", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctanh", "broadcast_add", "broadcast_div",
	"broadcast_minus", "broadcast_mul", "broadcast_plus", "broadcast_sub", "cast_storage", "cbrt", "ceil", "clip", "concat", "cos", "cosh",
	"degrees", "dot", "elemwise_add", "elemwise_div", "elemwise_mul", "elemwise_sub", "exp", "expm1", "fix", "floor", "gamma", "gammaln",
	"log", "log10", "log1p", "log2", "make_loss", "mean", "negative", "norm", "radians", "relu", "rint", "round", "rsqrt", "sigmoid", "sign",
	"sin", "sinh", "slice", "sqrt", "square", "stop_gradient", "sum", "tan", "tanh", "trunc", "where", "zeros_like", "digamma", "log_sigmoid", "mish", "_contrib_round_ste",
	"_contrib_sign_ste"}

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
		"_contrib_bipartite_matching", "_contrib_box_encode", "_npx_multibox_target", "_contrib_ctc_loss", "_contrib_calibrate_entropy",
		"_npx_ctc_loss", "_npx_bipartite_matching", "_npx_box_encode", "_npx_contrib_calibrate_entropy", "_contrib_hawkesll",
		"sgd_update", "sgd_mom_update", "mp_sgd_update", "mp_sgd_mom_update", "adam_update", "rmsprop_update", "rmspropalex_update", "ftrl_update",
		"ftml_update", "signsgd_update", "signum_update", "nag_mom_update", "mp_nag_mom_update", "lamb_update_phase1", "lamb_update_phase2",
		"mp_lamb_update_phase1", "mp_lamb_update_phase2", "multi_sgd_update", "multi_sgd_mom_update", "multi_mp_sgd_update",
		"multi_mp_sgd_mom_update", "preloaded_multi_sgd_update", "preloaded_multi_sgd_mom_update", "preloaded_multi_mp_sgd_update",
		"preloaded_multi_mp_sgd_mom_update", "_adamw_update", "_mp_adamw_update", "_multi_adamw_update", "_multi_mp_adamw_update",
		"_multi_lamb_update", "_multi_mp_lamb_update", "_adabelief_update", "_mp_adabelief_update", "_multi_adabelief_update",
		"_multi_mp_adabelief_update", "_multi_lans_update", "_multi_mp_lans_update", "_contrib_group_adagrad_update", "_sparse_adagrad_update",
		"_sparse_adam_update", "_sparse_ftrl_update", "_sparse_sgd_update", "_sparse_sgd_mom_update", "multi_lars", "multi_sum_sq",
		"multi_all_finite", "_image_adjust_lighting",
		"_npx__image_adjust_lighting", "_contrib_allclose", "all_finite", "_npi_all_finite", "_npi_multi_all_finite", "reset_arrays", "_NoGradient",
		"_random_pdf_uniform", "_random_pdf_normal", "_random_pdf_gamma", "_random_pdf_exponential", "_random_pdf_poisson", "_random_pdf_dirichlet",
		"_random_pdf_negative_binomial", "_random_pdf_generalized_negative_binomial", "random_pdf_uniform", "random_pdf_normal", "random_pdf_gamma",
		"random_pdf_exponential", "random_pdf_poisson", "random_pdf_dirichlet", "random_pdf_negative_binomial",
		"random_pdf_generalized_negative_binomial")
	refuse("its results are random", randomNames...)
	refuse("it runs code of the model's user", "Custom", "_CustomFunction", "_TVMOp", "_npi_Custom", "_NDArray", "_Native", "_CachedOpThreadSafe")
	refuse("sparse storage is not kept", "cast_storage", "_sparse_retain", "_contrib_getnnz", "_contrib_edge_id", "_contrib_dgl_subgraph",
		"_contrib_dgl_adjacency", "_contrib_dgl_graph_compact", "_contrib_dgl_csr_neighbor_uniform_sample",
		"_contrib_dgl_csr_neighbor_non_uniform_sample")
	refuse("it writes into its operand, for programs that MXNet runs step by step", "_set_value", "_copyto", "_npi_copyto", "_onehot_encode",
		"fill_element_0index", "_npi_share_memory", "_npx_constraint_check")
	refuse("it reads pictures, which are decoded before a model runs", "_imdecode", "_cvimdecode", "_cvimread", "_cvimresize",
		"_cvcopyMakeBorder", "_npi_cvimdecode", "_npi_cvimread", "_npi_cvimresize")
	refuse("it takes a matrix apart, into factors or eigenvalues, for which there is no kernel", "_linalg_gelqf", "linalg_gelqf", "_linalg_syevd",
		"linalg_syevd", "_npi_svd", "_npi_qr", "_npi_eig", "_npi_eigh", "_npi_eigvals", "_npi_eigvalsh", "_npi_pinv", "_npi_pinv_scalar_rcond",
		"_npi_lstsq", "_npi_matrix_rank", "_npi_matrix_rank_none_tol")
	refuse("its weights are packed for one library", "_npx_intgemm_fully_connected", "_npx_intgemm_maxabsolute", "_npx_intgemm_prepare_data",
		"_npx_intgemm_prepare_weight", "_npx_intgemm_take_weight", "_contrib_intgemm_fully_connected", "_contrib_intgemm_maxabsolute",
		"_contrib_intgemm_prepare_data", "_contrib_intgemm_prepare_weight", "_contrib_intgemm_take_weight")
	refuse("the shape that it gives is data", "_contrib_dynamic_reshape")
	return table
}

// randomNames are operators whose results are random.
var randomNames = []string{"_random_uniform", "_random_normal", "_random_gamma", "_random_poisson", "_random_exponential", "_random_randint",
	"_random_negative_binomial", "_random_generalized_negative_binomial", "_random_binomial", "_random_uniform_like", "_random_normal_like",
	"_random_gamma_like", "_random_poisson_like", "_random_exponential_like", "_random_negative_binomial_like",
	"_random_generalized_negative_binomial_like", "random_uniform", "random_normal", "random_gamma", "random_poisson", "random_exponential",
	"random_randint", "random_negative_binomial", "random_generalized_negative_binomial", "random_binomial", "uniform", "normal",
	"_sample_uniform", "_sample_normal", "_sample_gamma", "_sample_poisson", "_sample_exponential", "_sample_multinomial",
	"_sample_negative_binomial", "_sample_generalized_negative_binomial", "_sample_unique_zipfian", "_sample_binomial", "_sample_categorical",
	"sample_uniform", "sample_normal", "sample_gamma", "sample_poisson", "sample_exponential", "sample_multinomial",
	"sample_negative_binomial", "sample_generalized_negative_binomial", "sample_binomial", "sample_categorical", "_shuffle", "shuffle",
	"_npi_uniform", "_npi_normal", "_npi_bernoulli", "_npi_multinomial", "_npi_choice", "_npi_exponential", "_npi_gamma", "_npi_gumbel",
	"_npi_laplace", "_npi_logistic", "_npi_normal_n", "_npi_pareto", "_npi_powerd", "_npi_random_randint", "_npi_rayleigh", "_npi_shuffle",
	"_npi_uniform_n", "_npi_weibull", "_npx__random_categorical", "_npx__random_multinomial", "_npx_scalar_poisson", "_npx_tensor_poisson",
	"_image_random_brightness", "_image_random_color_jitter", "_image_random_contrast", "_image_random_flip_left_right",
	"_image_random_flip_top_bottom", "_image_random_hue", "_image_random_lighting", "_image_random_saturation", "_image_random_crop",
	"_image_random_resized_crop", "_npx__image_random_brightness", "_npx__image_random_color_jitter", "_npx__image_random_contrast",
	"_npx__image_random_flip_left_right", "_npx__image_random_flip_top_bottom", "_npx__image_random_hue", "_npx__image_random_lighting",
	"_npx__image_random_saturation", "_npx__image_random_crop", "_npx__image_random_resized_crop"}
