package mxnet_test

import (
	"fmt"
	"math"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph/mxnet"
	"github.com/carve-dev/carve/graph/tensor"
)

// applied runs one operator on operands.
func applied(ctx SpecContext, op, attrs string, in ...*tensor.Tensor) *tensor.Tensor {
	GinkgoHelper()
	var nodes, entries []string
	inputs := map[string]*tensor.Tensor{}
	for i, t := range in {
		name := fmt.Sprintf("x%d", i)
		nodes = append(nodes, fmt.Sprintf(`{"op":"null","name":%q,"inputs":[]},`, name))
		entries = append(entries, fmt.Sprintf("[%d,0]", i))
		inputs[name] = t
	}
	text := fmt.Sprintf(`{"nodes":[%s{"op":%q,"name":"y","attrs":{%s},"inputs":[%s]}],"heads":[[%d,0]],"attrs":{"mxnet_version":["int",10901],"is_np_shape":["int",1]}}`,
		strings.Join(nodes, ""), op, attrs, strings.Join(entries, ","), len(in))
	m, err := mxnet.Parse(ctx, []byte(text), nil, fedWith(inputs))
	Expect(err).NotTo(HaveOccurred())
	return outputsOf(ctx, m, inputs, "reference")[0]
}

// f32 is a tensor of 0, 1, 2, …
func f32(shape ...int) *tensor.Tensor {
	n, _ := tensor.NumElements(shape)
	data := make([]float32, n)
	for i := range data {
		data[i] = float32(i)
	}
	return tensor.From(data, shape...)
}

// half is a vector of one number in half precision.
func half(x float64) *tensor.Tensor {
	t, err := tensor.New(tensor.Float16, 1)
	if err == nil {
		err = tensor.Encode(t, []float64{x})
	}
	if err != nil {
		panic(err)
	}
	return t
}

var _ = DescribeTable("operators by their definition", func(ctx SpecContext, op, attrs string, in []*tensor.Tensor, want *tensor.Tensor) {
	got := applied(ctx, op, attrs, in...)
	Expect(got.DType).To(Equal(want.DType))
	Expect(got.Shape).To(Equal(want.Shape))
	Expect(got.Data).To(Equal(want.Data))
},
	Entry("einsum", "_npi_einsum", `"subscripts":"ij,kj->ik","num_args":"2"`, []*tensor.Tensor{f32(2, 2), f32(1, 2)}, tensor.From([]float32{1, 3}, 2, 1)),
	Entry("rows by a mask", "_contrib_boolean_mask", ``, []*tensor.Tensor{f32(3, 2), tensor.From([]float32{1, 0, 2}, 3)}, tensor.From([]float32{0, 1, 4, 5}, 2, 2)),
	Entry("places of what is not 0", "_npx_nonzero", ``, []*tensor.Tensor{f32(2, 2)}, tensor.From([]int64{0, 1, 1, 0, 1, 1}, 3, 2)),
	Entry("a lower triangle", "_npi_tril", `"k":"-1"`, []*tensor.Tensor{f32(2, 2)}, tensor.From([]float32{0, 0, 2, 0}, 2, 2)),
	Entry("an upper triangle", "_npi_triu", ``, []*tensor.Tensor{f32(2, 2)}, tensor.From([]float32{0, 1, 0, 3}, 2, 2)),
	Entry("finite numbers", "_npi_isfinite", ``, []*tensor.Tensor{tensor.From([]float32{1, float32(math.Inf(1)), float32(math.NaN())}, 3)},
		tensor.From([]bool{true, false, false}, 3)),
	Entry("the greater, none aside", "_npi_fmax", ``, []*tensor.Tensor{tensor.From([]float32{1, float32(math.NaN()), 5}, 3), tensor.From([]float32{2, 3, float32(math.NaN())}, 3)},
		tensor.From([]float32{2, 3, 5}, 3)),
	Entry("the rest, of the dividend's sign", "_npi_fmod", ``, []*tensor.Tensor{tensor.From([]float32{-7, 7}, 2), tensor.From([]float32{3, -3}, 2)}, tensor.From([]float32{-1, 1}, 2)),
	Entry("the rest, of the divisor's sign", "_npi_mod", ``, []*tensor.Tensor{tensor.From([]float32{-7, 7, 6, 5}, 4), tensor.From([]float32{3, -3, 3, 0}, 4)},
		tensor.From([]float32{2, -2, 0, 0}, 4)),
	Entry("an axis moved", "_np_moveaxis", `"source":"(0,)","destination":"(-1,)"`, []*tensor.Tensor{f32(2, 1, 3)}, tensor.From([]float32{0, 3, 1, 4, 2, 5}, 1, 3, 2)),
	Entry("vectors above each other", "_npi_vstack", `"num_args":"2"`, []*tensor.Tensor{f32(2), f32(2)}, tensor.From([]float32{0, 1, 0, 1}, 2, 2)),
	Entry("vectors beside each other", "_npi_hstack", `"num_args":"2"`, []*tensor.Tensor{f32(2), f32(1)}, tensor.From([]float32{0, 1, 0}, 3)),
	Entry("a number where a condition fails", "_npi_where_rscalar", `"scalar":"9"`, []*tensor.Tensor{tensor.From([]bool{true, false}, 2), f32(2)}, tensor.From([]float32{0, 9}, 2)),
	Entry("a deformable convolution that nothing deforms", "_contrib_DeformableConvolution", `"kernel":"(1, 1)","num_filter":"1","no_bias":"True"`,
		[]*tensor.Tensor{f32(1, 2, 2, 2), tensor.From(make([]float32, 8), 1, 2, 2, 2), tensor.From([]float32{1, 10}, 1, 2, 1, 1)}, tensor.From([]float32{40, 51, 62, 73}, 1, 1, 2, 2)),
	Entry("a deformable convolution that looks one row down", "_contrib_DeformableConvolution", `"kernel":"(1, 1)","num_filter":"1","no_bias":"True"`,
		[]*tensor.Tensor{f32(1, 1, 2, 2), tensor.From([]float32{1, 1, 1, 1, 0, 0, 0, 0}, 1, 2, 2, 2), tensor.From([]float32{1}, 1, 1, 1, 1)}, tensor.From([]float32{2, 3, 0, 0}, 1, 1, 2, 2)),
	Entry("concatenation without an axis", "_npi_concatenate", `"axis":"None","num_args":"2"`, []*tensor.Tensor{f32(2, 1), f32(1)}, tensor.From([]float32{0, 1, 0}, 3)),
	Entry("a product by the last axis but one of a tensor", "_np_dot", ``, []*tensor.Tensor{f32(1, 2), f32(2, 2, 1)}, tensor.From([]float32{1, 3}, 1, 2, 1)),
	Entry("matrices whose rows are the first axis", "_linalg_gemm2", `"axis":"0"`, []*tensor.Tensor{f32(1, 2, 2), f32(2, 2, 1)},
		tensor.From([]float32{2, 11}, 1, 2, 1)),
	Entry("a range in which each number comes twice", "_contrib_arange_like", `"repeat":"2"`, []*tensor.Tensor{f32(2, 2)}, tensor.From([]float32{0, 0, 1, 1}, 2, 2)),
	Entry("places in order, as float32", "_npi_argsort", ``, []*tensor.Tensor{f32(2)}, tensor.From([]float32{0, 1}, 2)),
	Entry("whole numbers and a fraction", "_npi_add_scalar", `"scalar":"0.5","is_int":"False"`, []*tensor.Tensor{tensor.From([]int32{1}, 1)}, tensor.From([]float64{1.5}, 1)),
	Entry("an image enlarged to odd sizes", "_contrib_BilinearResize2D", `"mode":"to_odd_up"`, []*tensor.Tensor{f32(1, 1, 2, 1)}, tensor.From([]float32{0, 0.5, 1}, 1, 1, 3, 1)),
	Entry("a maximum that zeros in the padding take part in", "Pooling_v1", `"kernel":"(1, 2)","pad":"(0, 1)"`, []*tensor.Tensor{tensor.From([]float32{-1}, 1, 1, 1, 1)},
		tensor.From([]float32{0, 0}, 1, 1, 1, 2)),
	Entry("the square root of large half-precision squares", "_npi_hypot", ``, []*tensor.Tensor{half(300), half(400)}, half(500)),
	Entry("a second name of a function", "_npx_softsign", ``, []*tensor.Tensor{tensor.From([]float32{1, -3}, 2)}, tensor.From([]float32{0.5, -0.75}, 2)),
	Entry("a second name, with what the first makes of it", "_npx_broadcast_greater", ``, []*tensor.Tensor{f32(2), f32(1)}, tensor.From([]float32{0, 1}, 2)),
	Entry("a comparison of NumPy's", "_npi_greater", ``, []*tensor.Tensor{f32(2), f32(1)}, tensor.From([]bool{false, true}, 2)),
	Entry("a name of 1.9 that has another prefix in 2.0", "_npi_diag", `"k":"1"`, []*tensor.Tensor{f32(2, 2)}, tensor.From([]float32{1}, 1)),
	Entry("the largest by its second name", "_npi_amax", `"axis":"(1,)","initial":"None"`, []*tensor.Tensor{f32(2, 2)}, tensor.From([]float32{1, 3}, 2)),
	Entry("a pooling with every attribute that MXNet 2 writes", "Pooling", `"count_include_pad":"None","cudnn_off":"0","global_pool":"1","kernel":"[7,7]","layout":"NCHW","output_size":"None","p_value":"None","pad":"[0,0]","pool_type":"avg","pooling_convention":"valid","stride":"[7,7]"`,
		[]*tensor.Tensor{f32(1, 1, 1, 2)}, tensor.From([]float32{0.5}, 1, 1, 1, 1)),
	Entry("an average over cells with the attributes of pooling", "_contrib_AdaptiveAvgPooling2D", `"kernel":"[]","output_size":"[1,2]","pool_type":"avg","layout":"None"`,
		[]*tensor.Tensor{f32(1, 1, 1, 4)}, tensor.From([]float32{0.5, 2.5}, 1, 1, 1, 2)),
	Entry("concatenation without a dim", "Concat", `"dim":"None","num_args":"2"`, []*tensor.Tensor{f32(2, 1), f32(1)}, tensor.From([]float32{0, 1, 0}, 3)),
	Entry("the first of three nearly equal pieces", "_split_v2", `"axis":"0","indices":"[]","sections":"3"`, []*tensor.Tensor{f32(4)}, tensor.From([]float32{0, 1}, 2)),
	Entry("each as often as a list says", "_npi_repeats", `"axis":"0","repeats":"[2,0,1]"`, []*tensor.Tensor{f32(3)}, tensor.From([]float32{0, 0, 2}, 3)),
	Entry("all as often", "_npi_repeats", `"axis":"None","repeats":"[2]"`, []*tensor.Tensor{f32(2)}, tensor.From([]float32{0, 0, 1, 1}, 4)),
	Entry("a constant whose number has a type", "_npi_full", `"value_type":"2","double_value":"2.5","int_value":"0","uint_value":"0","shape":"[1]"`, nil, tensor.From([]float32{2.5}, 1)),
	Entry("equal distances between numbers that have a type", "_npi_linspace", `"value_type":"0","start_int":"1","stop_int":"3","start_double":"0","stop_double":"0","start_uint":"0","stop_uint":"0","num":"3"`,
		nil, tensor.From([]float32{1, 2, 3}, 3)),
	Entry("padding by a mirror", "_npi_pad", `"mode":"symmetric","pad_width":"[[1,3]]"`, []*tensor.Tensor{f32(2)}, tensor.From([]float32{0, 0, 1, 1, 0, 0}, 6)),
	Entry("padding with the largest", "_npi_pad", `"mode":"maximum","pad_width":"[[0,1]]"`, []*tensor.Tensor{f32(2)}, tensor.From([]float32{0, 1, 1}, 3)),
	Entry("padding by the name of MXNet 2", "_npi_pad", `"mode":"constant","constant_values":"5","pad_width":"[[0,1]]"`, []*tensor.Tensor{f32(1)}, tensor.From([]float32{0, 5}, 2)),
	Entry("the greater whole number", "_npi_fmax", ``, []*tensor.Tensor{tensor.From([]int32{1, 4}, 2), tensor.From([]int32{3, 2}, 2)}, tensor.From([]int32{3, 4}, 2)),
	Entry("vectors beside each other, with the attribute of Concat", "_npi_hstack", `"dim":"1","num_args":"1"`, []*tensor.Tensor{f32(2)}, f32(2)),
	Entry("a sum over all by the old name, which is no scalar", "sum", ``, []*tensor.Tensor{f32(2)}, tensor.From([]float32{1}, 1)),
	Entry("the old squeeze, which leaves an axis", "squeeze", ``, []*tensor.Tensor{f32(1, 1)}, f32(1)),
	Entry("an element of a vector by the old name, which is no scalar", "pick", `"axis":"0"`, []*tensor.Tensor{f32(3), tensor.From([]float32{2}, 1)}, tensor.From([]float32{2}, 1)),
	Entry("a softmax where a mask is true, and a row without any", "masked_softmax", `"axis":"-1","normalize":"1","temperature":"1"`,
		[]*tensor.Tensor{f32(2, 2), tensor.From([]bool{true, false, false, false}, 2, 2)}, tensor.From([]float32{1, 0, 0, 0}, 2, 2)),
	Entry("the logarithm of one", "masked_log_softmax", ``, []*tensor.Tensor{f32(1, 2), tensor.From([]bool{true, false}, 1, 2)},
		tensor.From([]float32{0, float32(math.Inf(-1))}, 1, 2)),
	Entry("scores in a sliding window", "_npx_sldwin_atten_score", `"w":"1","symmetric":"True"`,
		[]*tensor.Tensor{f32(1, 3, 1, 1), f32(1, 3, 1, 1), tensor.From([]int32{1}, 1)}, tensor.From([]float32{0, 0, 0, 0, 1, 2, 2, 4, 0}, 1, 3, 1, 3)),
	Entry("values in a dilated window that looks back", "_npx_sldwin_atten_context", `"w":"1","symmetric":"False"`,
		[]*tensor.Tensor{tensor.From([]float32{1, 1, 1, 1, 1, 1}, 1, 3, 1, 2), f32(1, 3, 1, 1), tensor.From([]int32{2}, 1)}, tensor.From([]float32{0, 1, 2}, 1, 3, 1, 1)),
	Entry("which scores of a window count", "_npx_sldwin_atten_mask_like", `"w":"1","symmetric":"True"`,
		[]*tensor.Tensor{f32(1, 3, 1, 3), tensor.From([]int32{1}, 1), tensor.From([]int32{2}, 1)}, tensor.From([]float32{0, 1, 1, 1, 1, 0, 0, 0, 0}, 1, 3, 1, 3)),
	Entry("quotients downwards, 0 where the divisor is", "_npi_floor_divide", ``, []*tensor.Tensor{tensor.From([]int32{-7, 7, 7, 5}, 4), tensor.From([]int32{2, -2, 2, 0}, 4)},
		tensor.From([]int32{-4, -4, 3, 0}, 4)),
	Entry("the greatest common divisor", "_npi_gcd", ``, []*tensor.Tensor{tensor.From([]int64{12, -18, 0}, 3), tensor.From([]int64{18, 12, 5}, 3)}, tensor.From([]int64{6, 6, 5}, 3)),
	Entry("the least common multiple", "_npi_lcm_scalar", `"scalar":"4","is_int":"1"`, []*tensor.Tensor{tensor.From([]int32{6, -3, 0}, 3)}, tensor.From([]int32{12, 12, 0}, 3)),
	Entry("a shift of a negative number", "_npi_bitwise_right_shift_scalar", `"scalar":"1","is_int":"1"`, []*tensor.Tensor{tensor.From([]int8{-5, 5}, 2)}, tensor.From([]int8{-3, 2}, 2)),
	Entry("the logarithm of a sum of exponentials that overflow", "_npi_logaddexp", ``, []*tensor.Tensor{tensor.From([]float32{1000}, 1), tensor.From([]float32{0}, 1)},
		tensor.From([]float32{1000}, 1)),
	Entry("elements left out", "_npi_delete", `"start":"None","stop":"None","step":"2","axis":"0"`, []*tensor.Tensor{f32(4)}, tensor.From([]float32{1, 3}, 2)),
	Entry("a column put in", "_npi_insert_scalar", `"int_ind":"1","axis":"1"`, []*tensor.Tensor{f32(2, 2), tensor.From([]float32{8, 9}, 2)},
		tensor.From([]float32{0, 8, 1, 2, 9, 3}, 2, 3)),
	Entry("numbers put in before several", "_npi_insert_tensor", `"val":"9","axis":"0"`, []*tensor.Tensor{f32(3), tensor.From([]int64{3, 1}, 2)},
		tensor.From([]float32{0, 9, 1, 2, 9}, 5)),
	Entry("a number added twice", "_npx_index_add", ``, []*tensor.Tensor{f32(2, 2), tensor.From([]int32{1, 1, 0, 0}, 2, 2), tensor.From([]float32{5}, 1)},
		tensor.From([]float32{0, 1, 12, 3}, 2, 2)),
	Entry("values written where a mask is true", "_npi_boolean_mask_assign_tensor", `"start_axis":"0"`,
		[]*tensor.Tensor{f32(2, 2), tensor.From([]bool{true, false, false, true}, 2, 2), tensor.From([]float32{8, 9}, 2)}, tensor.From([]float32{8, 1, 2, 9}, 2, 2)),
	Entry("a diagonal that begins anew", "_npi_fill_diagonal", `"val":"[9]","wrap":"1"`, []*tensor.Tensor{f32(4, 1)}, tensor.From([]float32{9, 1, 9, 3}, 4, 1)),
	Entry("the median", "_npi_percentile", `"q_scalar":"50","interpolation":"midpoint","axis":"None","keepdims":"0"`, []*tensor.Tensor{f32(4)}, tensor.From([]float32{1.5}, []int{}...)),
	Entry("how often whole numbers occur", "_npi_bincount", `"minlength":"4"`, []*tensor.Tensor{tensor.From([]int32{1, 2, 1}, 3)}, tensor.From([]int32{0, 2, 1, 0}, 4)),
	Entry("elements between edges", "_histogram", `"bin_cnt":"2","range":"(0, 4)"`, []*tensor.Tensor{tensor.From([]float32{-1, 0, 1, 4, 5}, 5)}, tensor.From([]int64{2, 1}, 2)),
	Entry("a line between points", "_npi_interp", ``, []*tensor.Tensor{tensor.From([]float32{0, 1, 3}, 3), tensor.From([]float32{0, 10, 20}, 3), tensor.From([]float32{-1, 0.5, 2, 4}, 4)},
		tensor.From([]float32{0, 5, 15, 20}, 4)),
	Entry("what is normal to two vectors", "_npi_cross", ``, []*tensor.Tensor{tensor.From([]float32{1, 0, 0}, 3), tensor.From([]float32{0, 1, 0}, 3)}, tensor.From([]float32{0, 0, 1}, 3)),
	Entry("all products of elements", "_npi_kron", ``, []*tensor.Tensor{f32(2), f32(2, 1)}, tensor.From([]float32{0, 0, 0, 1}, 2, 2)),
	Entry("the transform of a constant", "_contrib_fft", ``, []*tensor.Tensor{tensor.From([]float32{1, 1}, 1, 2)}, tensor.From([]float32{2, 0, 0, 0}, 1, 4)),
	Entry("and back, without a factor", "_contrib_ifft", ``, []*tensor.Tensor{tensor.From([]float32{2, 0, 0, 0}, 1, 4)}, tensor.From([]float32{2, 2}, 1, 2)),
	Entry("elements added by a table", "_contrib_count_sketch", `"out_dim":"3"`,
		[]*tensor.Tensor{tensor.From([]float32{1, 2, 4}, 1, 3), tensor.From([]float32{2, 0, 2}, 1, 3), tensor.From([]float32{1, -1, 1}, 1, 3)}, tensor.From([]float32{-2, 0, 5}, 1, 3)),
	Entry("a proposal, of an anchor that the image cuts, twice", "_contrib_Proposal", `"feature_stride":"4","scales":"(1,)","ratios":"(1,)","rpn_pre_nms_top_n":"3","rpn_post_nms_top_n":"2","threshold":"0.1","rpn_min_size":"1"`,
		[]*tensor.Tensor{tensor.From([]float32{0, 0, 0, 0.5}, 1, 2, 1, 2), tensor.From(make([]float32, 8), 1, 4, 1, 2), tensor.From([]float32{4, 6, 1}, 1, 3)},
		tensor.From([]float32{0, 0, 0, 3, 3, 0, 4, 0, 5, 3}, 2, 5)),
	Entry("more proposals than boxes that are looked at, which are repeated", "_contrib_Proposal", `"feature_stride":"4","scales":"(1,)","ratios":"(1,)","rpn_pre_nms_top_n":"1","rpn_post_nms_top_n":"3","threshold":"0.1","rpn_min_size":"1"`,
		[]*tensor.Tensor{tensor.From([]float32{0, 0, 0.25, 0.5}, 1, 2, 1, 2), tensor.From(make([]float32, 8), 1, 4, 1, 2), tensor.From([]float32{4, 8, 1}, 1, 3)},
		tensor.From([]float32{0, 4, 0, 7, 3, 0, 4, 0, 7, 3, 0, 4, 0, 7, 3}, 3, 5)),
	Entry("attention that oneDNN fused", "_sg_onednn_selfatt_qk", `"heads":"1","quantized":"0","enable_float_output":"0"`, []*tensor.Tensor{f32(1, 2, 3)},
		tensor.From([]float32{0, 0, 3, 12}, 1, 1, 2, 2)),
	Entry("means of cells whose channels are their own, and of a region outside", "_contrib_PSROIPooling", `"spatial_scale":"1","output_dim":"1","pooled_size":"2"`,
		[]*tensor.Tensor{f32(1, 4, 1, 1), tensor.From([]float32{0, 0, 0, 0, 0, 0, 5, 5, 6, 6}, 2, 5)}, tensor.From([]float32{0, 1, 2, 3, 0, 0, 0, 0}, 2, 1, 2, 2)),
	Entry("the mean of a whole image", "_contrib_PSROIPooling", `"spatial_scale":"0.5","output_dim":"1","pooled_size":"1","group_size":"0"`,
		[]*tensor.Tensor{f32(1, 1, 2, 2), tensor.From([]float32{0, 0, 0, 3, 3}, 1, 5)}, tensor.From([]float32{1.5}, 1, 1, 1, 1)),
	Entry("a sample that an offset moves", "_contrib_DeformablePSROIPooling", `"spatial_scale":"1","output_dim":"1","pooled_size":"1","group_size":"1","trans_std":"1"`,
		[]*tensor.Tensor{f32(1, 1, 2, 2), tensor.From([]float32{0, 0, 0, 1, 1}, 1, 5), tensor.From([]float32{0.5, 0.25}, 1, 2, 1, 1)}, tensor.From([]float32{0.5}, 1, 1, 1, 1)),
	Entry("samples of which one is outside", "_contrib_DeformablePSROIPooling", `"spatial_scale":"1","output_dim":"1","pooled_size":"1","group_size":"1","sample_per_part":"2","no_trans":"True"`,
		[]*tensor.Tensor{f32(1, 1, 1, 2), tensor.From([]float32{0, 2, 0, 3, 0}, 1, 5)}, tensor.From([]float32{1}, 1, 1, 1, 1)),
	Entry("a region that is not turned", "_contrib_RROIAlign", `"spatial_scale":"0.5","pooled_size":"(1, 2)","sampling_ratio":"1"`,
		[]*tensor.Tensor{f32(1, 1, 3, 3), tensor.From([]float32{0, 2, 2, 4, 2, 0}, 1, 6)}, tensor.From([]float32{3.5, 4.5}, 1, 1, 1, 2)),
	Entry("as many samples as the region has pixels", "_contrib_RROIAlign", `"spatial_scale":"1","pooled_size":"(1, 1)"`,
		[]*tensor.Tensor{f32(1, 1, 3, 3), tensor.From([]float32{0, 1, 1, 2, 1, 0, 0, 9, 9, 1, 3, 0}, 2, 6)}, tensor.From([]float32{4, 0}, 2, 1, 1, 1)),
	Entry("unsigned integers from the least number on", "_contrib_quantize_asym", ``, []*tensor.Tensor{f32(3)}, tensor.From([]uint8{0, 128, 255}, 3)),
	Entry("unsigned integers of a range", "_contrib_quantize_asym", `"min_calib_range":"-1.0","max_calib_range":"1.0"`, []*tensor.Tensor{tensor.From([]float32{-9, 0.5, 1}, 3)},
		tensor.From([]uint8{0, 191, 255}, 3)),
	Entry("unsigned integers of equal numbers", "_contrib_quantize_asym", ``, []*tensor.Tensor{tensor.From([]float32{3, 3}, 2)}, tensor.From([]uint8{0, 0}, 2)),
	Entry("argmax over all", "_npi_argmax", `"axis":"None"`, []*tensor.Tensor{f32(2, 2)}, tensor.From([]int64{3}, []int{}...)),
)

var _ = DescribeTable("sums of integers", func(ctx SpecContext, kind string, dt tensor.DType, lo float32) {
	// Two operands of different ranks are quantised, and added. The range of the sum is known from calibration.
	text := fmt.Sprintf(`{"nodes":[{"op":"null","name":"x","inputs":[]},{"op":"null","name":"y","inputs":[]},
		{"op":"_contrib_quantize_v2","name":"a","attrs":{"min_calib_range":"%[2]v","max_calib_range":"127","out_type":%[1]q},"inputs":[[0,0,0]]},
		{"op":"_contrib_quantize_v2","name":"b","attrs":{"min_calib_range":"%[2]v","max_calib_range":"12.7","out_type":%[1]q},"inputs":[[1,0,0]]},
		{"op":"_contrib_quantized_npi_add","name":"sum","attrs":{"min_calib_range":"%[2]v","max_calib_range":"127"},"inputs":[[2,0,0],[3,0,0],[2,1,0],[2,2,0],[3,1,0],[3,2,0]]},
		{"op":"_contrib_dequantize","name":"real","inputs":[[4,0,0],[4,1,0],[4,2,0]]}],
		"heads":[[5,0,0],[4,0,0]],"attrs":{"mxnet_version":["int",20000],"is_np_shape":["int",1]}}`, kind, lo)
	inputs := map[string]*tensor.Tensor{"x": tensor.From([]float32{3, 20}, 2, 1), "y": tensor.From([]float32{4, 10}, 2)}
	m, err := mxnet.Parse(ctx, []byte(text), nil, fedWith(inputs))
	Expect(err).NotTo(HaveOccurred())
	got := outputsOf(ctx, m, inputs, "reference")
	_, problem := withinSteps(got[0], tensor.From([]float32{7, 13, 24, 30}, 2, 2), 1)
	Expect(problem).To(BeEmpty())
	Expect(got[1].DType).To(Equal(dt))
},
	Entry("with a sign", "int8", tensor.Int8, float32(-12.7)),
	Entry("without one", "uint8", tensor.Uint8, float32(0)),
)
