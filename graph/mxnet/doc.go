// Package mxnet reads models of Apache MXNet, versions 0.8 to 2.0, as graphs of standard operators.
//
// # Where to start
//
// [Load] reads a symbol and the parameters beside it, [LoadFS] from an fs.FS, [Parse] from bytes; Model.Graph is the graph. Whoever
// only runs models needs none of them: carve.Open takes net-symbol.json, and carve.FromMXNet a Model that was loaded with [Options].
//
// [ParseSymbol] and [ParseParams] read the two files by themselves.
//
// # What is read
//
// A symbol is JSON of any version, with the upgrades that MXNet makes of older ones: files without auxiliary states, keys "attr" and
// "param", hidden keys without underscores, argmax over all elements, operators of version 1. Bodies of control flow become regions.
// Parameters are lists and dictionaries of arrays in the formats V0 to V3, dense, row-sparse and CSR, or npz of MXNet 2, plain and
// deflated; names have arg: and aux: in front or not. Dense arrays stay in the file, which is mapped.
//
// An input is a variable without data. Its shape is what Options say, else what the variable says (__shape__), else what the
// parameters of its readers tell; dims that nobody tells are symbols, the first one "batch". Labels of output heads are no inputs.
//
// Files are untrusted. Sizes are checked against the file before they are used, depth and numbers of nodes are bounded, and every
// fault is an *Error that names file, node and offset. Attributes are strict: one that an operator does not have, or a value that it
// does not admit, is an error.
//
// # Operators
//
// Each operator becomes standard ones of ONNX where the meaning is the same, so that every backend and fusion works on it. Where ONNX
// has no words for it, it becomes a node of [Domain], with a schema and a kernel that every backend's fallback runs; for ONNX, [Expand]
// says it in many standard ones. Others are refused, with the reason. [Operators] lists them; names in the order of the alphabet:
//
//	standard
//
//	Activation, BatchNorm, BatchNorm_v1, BilinearSampler, BlockGrad, Cast, Concat, Convolution, Convolution_v1, Crop,
//	CuDNNBatchNorm, Deconvolution, Dropout, ElementWiseSum, Embedding, Flatten, FullyConnected, GridGenerator, GroupNorm,
//	IdentityAttachKLSparseReg, InstanceNorm, L2Normalization, LRN, LayerNorm, LeakyReLU, LinearRegressionOutput,
//	LogisticRegressionOutput, MAERegressionOutput, MakeLoss, Pad, Pooling, Pooling_v1, RNN, ROIPooling, Reshape, SVMOutput,
//	SequenceLast, SequenceMask, SequenceReverse, SliceChannel, Softmax, SoftmaxActivation, SoftmaxOutput, SpatialTransformer,
//	SwapAxis, UpSampling, _CachedOp, _CrossDeviceCopy, _Div, _DivScalar, _Equal, _EqualScalar, _Greater, _GreaterEqualScalar,
//	_GreaterScalar, _Greater_Equal, _Hypot, _HypotScalar, _Lesser, _LesserEqualScalar, _LesserScalar, _Lesser_Equal,
//	_LogicalAndScalar, _LogicalOrScalar, _LogicalXorScalar, _Logical_And, _Logical_Or, _Logical_Xor, _Maximum, _MaximumScalar,
//	_Minimum, _MinimumScalar, _Minus, _MinusScalar, _Mod, _ModScalar, _Mul, _MulScalar, _NotEqualScalar, _Not_Equal, _Plus,
//	_PlusScalar, _Power, _PowerScalar, _RDivScalar, _RMinusScalar, _RModScalar, _RPowerScalar, _add, _arange, _cond,
//	_contrib_AdaptiveAvgPooling2D, _contrib_BatchNormWithReLU, _contrib_BilinearResize2D, _contrib_DeformableConvolution,
//	_contrib_DeformablePSROIPooling, _contrib_ModulatedDeformableConvolution, _contrib_PSROIPooling, _contrib_ROIAlign,
//	_contrib_RROIAlign, _contrib_SparseEmbedding, _contrib_SyncBatchNorm, _contrib_arange_like, _contrib_boolean_mask,
//	_contrib_box_decode, _contrib_box_iou, _contrib_count_sketch, _contrib_dequantize, _contrib_div_sqrt_dim, _contrib_fft,
//	_contrib_gradientmultiplier, _contrib_ifft, _contrib_index_array, _contrib_index_copy,
//	_contrib_interleaved_matmul_encdec_qk, _contrib_interleaved_matmul_encdec_valatt, _contrib_interleaved_matmul_selfatt_qk,
//	_contrib_interleaved_matmul_selfatt_valatt, _contrib_quadratic, _contrib_quantize, _contrib_quantize_asym,
//	_contrib_quantize_v2, _contrib_quantized_act, _contrib_quantized_batch_norm, _contrib_quantized_concat,
//	_contrib_quantized_conv, _contrib_quantized_elemwise_add, _contrib_quantized_elemwise_mul, _contrib_quantized_embedding,
//	_contrib_quantized_flatten, _contrib_quantized_fully_connected, _contrib_quantized_npi_add, _contrib_quantized_pooling,
//	_contrib_quantized_reshape, _contrib_quantized_rnn, _contrib_quantized_transpose, _contrib_requantize, _contrib_round_ste,
//	_contrib_sign_ste, _contrib_sldwin_atten_context, _contrib_sldwin_atten_mask_like, _contrib_sldwin_atten_score, _copy,
//	_crop_assign, _crop_assign_scalar, _div, _div_scalar, _equal, _equal_scalar, _eye, _foreach, _full, _grad_add, _greater,
//	_greater_equal, _greater_equal_scalar, _greater_scalar, _histogram, _hypot, _hypot_scalar, _identity_with_attr_like_rhs,
//	_image_crop, _image_flip_left_right, _image_flip_top_bottom, _image_normalize, _image_resize, _image_to_tensor, _lesser,
//	_lesser_equal, _lesser_equal_scalar, _lesser_scalar, _linalg_det, _linalg_extractdiag, _linalg_extracttrian, _linalg_gemm,
//	_linalg_gemm2, _linalg_makediag, _linalg_maketrian, _linalg_slogdet, _linalg_sumlogdiag, _linalg_syrk, _linalg_trmm,
//	_linspace, _logical_and, _logical_and_scalar, _logical_or, _logical_or_scalar, _logical_xor, _logical_xor_scalar,
//	_maximum, _maximum_scalar, _minimum, _minimum_scalar, _minus, _minus_scalar, _mod, _mod_scalar, _mul, _mul_scalar,
//	_not_equal, _not_equal_scalar, _np_absolute, _np_all, _np_amax, _np_amin, _np_any, _np_atleast_1d, _np_atleast_2d,
//	_np_atleast_3d, _np_broadcast_to, _np_copy, _np_cumsum, _np_diag, _np_diagflat, _np_diagonal, _np_dot, _np_hstack,
//	_np_matmul, _np_max, _np_min, _np_moveaxis, _np_negative, _np_ones_like, _np_prod, _np_product, _np_repeat, _np_reshape,
//	_np_roll, _np_sometrue, _np_squeeze, _np_sum, _np_trace, _np_transpose, _np_vstack, _np_zeros_like, _npi_abs,
//	_npi_absolute, _npi_add, _npi_add_scalar, _npi_advanced_indexing, _npi_advanced_indexing_multiple, _npi_all, _npi_amax,
//	_npi_amin, _npi_amp_cast, _npi_amp_multicast, _npi_any, _npi_arange, _npi_arccos, _npi_arccosh, _npi_arcsin, _npi_arcsinh,
//	_npi_arctan, _npi_arctan2, _npi_arctan2_scalar, _npi_arctanh, _npi_argmax, _npi_argmin, _npi_argsort, _npi_around,
//	_npi_array_split, _npi_atleast_1d, _npi_atleast_2d, _npi_atleast_3d, _npi_average, _npi_bincount, _npi_bitwise_and,
//	_npi_bitwise_and_scalar, _npi_bitwise_left_shift, _npi_bitwise_left_shift_scalar, _npi_bitwise_not, _npi_bitwise_or,
//	_npi_bitwise_or_scalar, _npi_bitwise_right_shift, _npi_bitwise_right_shift_scalar, _npi_bitwise_xor,
//	_npi_bitwise_xor_scalar, _npi_blackman, _npi_boolean_mask, _npi_boolean_mask_assign_scalar,
//	_npi_boolean_mask_assign_tensor, _npi_broadcast_to, _npi_cast, _npi_cbrt, _npi_ceil, _npi_clip, _npi_column_stack,
//	_npi_concatenate, _npi_copy, _npi_copysign, _npi_copysign_scalar, _npi_cos, _npi_cosh, _npi_cross, _npi_cumsum,
//	_npi_deg2rad, _npi_degrees, _npi_delete, _npi_det, _npi_diag, _npi_diag_indices_from, _npi_diagflat, _npi_diagonal,
//	_npi_diff, _npi_dot, _npi_dsplit, _npi_dstack, _npi_ediff1d, _npi_einsum, _npi_equal, _npi_equal_scalar, _npi_exp,
//	_npi_expand_dims, _npi_expm1, _npi_eye, _npi_fill_diagonal, _npi_fix, _npi_flip, _npi_floor, _npi_floor_divide,
//	_npi_floor_divide_scalar, _npi_fmax, _npi_fmax_scalar, _npi_fmin, _npi_fmin_scalar, _npi_fmod, _npi_fmod_scalar,
//	_npi_full, _npi_full_like, _npi_gather_nd, _npi_gcd, _npi_gcd_scalar, _npi_greater, _npi_greater_equal,
//	_npi_greater_equal_scalar, _npi_greater_scalar, _npi_hamming, _npi_hanning, _npi_histogram, _npi_hsplit, _npi_hstack,
//	_npi_hypot, _npi_hypot_scalar, _npi_identity, _npi_indices, _npi_insert_scalar, _npi_insert_slice, _npi_insert_tensor,
//	_npi_interp, _npi_isfinite, _npi_isinf, _npi_isnan, _npi_isneginf, _npi_isposinf, _npi_kron, _npi_lcm, _npi_lcm_scalar,
//	_npi_ldexp, _npi_ldexp_scalar, _npi_less, _npi_less_equal, _npi_less_equal_scalar, _npi_less_scalar, _npi_linspace,
//	_npi_log, _npi_log10, _npi_log1p, _npi_log2, _npi_logaddexp, _npi_logaddexp_scalar, _npi_logical_and,
//	_npi_logical_and_scalar, _npi_logical_not, _npi_logical_or, _npi_logical_or_scalar, _npi_logical_xor,
//	_npi_logical_xor_scalar, _npi_logspace, _npi_matmul, _npi_max, _npi_maximum, _npi_maximum_scalar, _npi_mean, _npi_min,
//	_npi_minimum, _npi_minimum_scalar, _npi_mod, _npi_mod_scalar, _npi_moveaxis, _npi_multiply, _npi_multiply_scalar,
//	_npi_nan_to_num, _npi_negative, _npi_nonzero, _npi_norm, _npi_not_equal, _npi_not_equal_scalar, _npi_ones, _npi_ones_like,
//	_npi_pad, _npi_percentile, _npi_polyval, _npi_power, _npi_power_scalar, _npi_prod, _npi_rad2deg, _npi_radians,
//	_npi_rarctan2_scalar, _npi_rbitwise_left_shift_scalar, _npi_rbitwise_right_shift_scalar, _npi_rcopysign_scalar,
//	_npi_reciprocal, _npi_repeat, _npi_repeats, _npi_reshape, _npi_rfloor_divide_scalar, _npi_rfmod_scalar, _npi_rint,
//	_npi_rldexp_scalar, _npi_rmod_scalar, _npi_rnn_param_concat, _npi_roll, _npi_rollaxis, _npi_rot90, _npi_rpower_scalar,
//	_npi_rsubtract_scalar, _npi_rtrue_divide_scalar, _npi_scatter_set_nd, _npi_sign, _npi_sin, _npi_sinh, _npi_slice,
//	_npi_slice_assign, _npi_slice_assign_scalar, _npi_slogdet, _npi_sort, _npi_split, _npi_sqrt, _npi_square, _npi_squeeze,
//	_npi_stack, _npi_std, _npi_subtract, _npi_subtract_scalar, _npi_sum, _npi_swapaxes, _npi_take, _npi_tan, _npi_tanh,
//	_npi_tensordot, _npi_tensordot_int_axes, _npi_tile, _npi_trace, _npi_transpose, _npi_tri, _npi_tril, _npi_tril_indices,
//	_npi_triu, _npi_true_divide, _npi_true_divide_scalar, _npi_trunc, _npi_unique, _npi_unravel_index, _npi_var, _npi_vstack,
//	_npi_where, _npi_where_lscalar, _npi_where_rscalar, _npi_where_scalar2, _npi_zeros, _npi_zeros_like, _npx__image_crop,
//	_npx__image_flip_left_right, _npx__image_flip_top_bottom, _npx__image_normalize, _npx__image_resize,
//	_npx__image_to_tensor, _npx_activation, _npx_add_n, _npx_arange_like, _npx_batch_dot, _npx_batch_flatten, _npx_batch_norm,
//	_npx_batch_norm_with_relu, _npx_box_decode, _npx_box_iou, _npx_broadcast_greater, _npx_broadcast_like, _npx_cast,
//	_npx_cond, _npx_contrib_quantize, _npx_contrib_quantize_v2, _npx_contrib_quantized_rnn, _npx_convolution,
//	_npx_deconvolution, _npx_deformable_convolution, _npx_dropout, _npx_embedding, _npx_erf, _npx_foreach,
//	_npx_fully_connected, _npx_gather_nd, _npx_group_norm, _npx_index_add, _npx_index_array, _npx_index_update,
//	_npx_instance_norm, _npx_interleaved_matmul_encdec_qk, _npx_interleaved_matmul_encdec_valatt,
//	_npx_interleaved_matmul_selfatt_qk, _npx_interleaved_matmul_selfatt_valatt, _npx_layer_norm, _npx_leaky_relu,
//	_npx_log_softmax, _npx_masked_log_softmax, _npx_masked_softmax, _npx_modulated_deformable_convolution, _npx_nonzero,
//	_npx_norm, _npx_one_hot, _npx_pad, _npx_pick, _npx_pooling, _npx_quantized_act, _npx_quantized_conv,
//	_npx_quantized_elemwise_add, _npx_quantized_elemwise_mul, _npx_quantized_embedding, _npx_quantized_flatten,
//	_npx_quantized_fully_connected, _npx_quantized_npi_add, _npx_quantized_pooling, _npx_quantized_reshape,
//	_npx_quantized_transpose, _npx_relu, _npx_requantize, _npx_reshape, _npx_reshape_like, _npx_rnn, _npx_roi_pooling,
//	_npx_round_ste, _npx_sequence_last, _npx_sequence_mask, _npx_sequence_reverse, _npx_shape_array, _npx_sigmoid,
//	_npx_sign_ste, _npx_sldwin_atten_context, _npx_sldwin_atten_mask_like, _npx_sldwin_atten_score, _npx_slice,
//	_npx_slice_channel, _npx_slice_like, _npx_smooth_l1, _npx_softmax, _npx_softsign, _npx_stop_gradient,
//	_npx_sync_batch_norm, _npx_topk, _npx_while_loop, _ones, _plus, _plus_scalar, _power, _power_scalar, _ravel_multi_index,
//	_rdiv_scalar, _rminus_scalar, _rmod_scalar, _rnn_param_concat, _rpower_scalar, _scatter_elemwise_div,
//	_scatter_minus_scalar, _scatter_plus_scalar, _scatter_set_nd, _sg_mkldnn_conv, _sg_mkldnn_fully_connected,
//	_sg_mkldnn_selfatt_qk, _sg_mkldnn_selfatt_valatt, _sg_onednn_batch_dot, _sg_onednn_conv, _sg_onednn_fully_connected,
//	_sg_onednn_selfatt_qk, _sg_onednn_selfatt_valatt, _slice_assign, _slice_assign_scalar, _sparse_ElementWiseSum,
//	_sparse_Embedding, _sparse_FullyConnected, _sparse_LinearRegressionOutput, _sparse_LogisticRegressionOutput,
//	_sparse_MAERegressionOutput, _sparse__contrib_round_ste, _sparse__contrib_sign_ste, _sparse_abs, _sparse_add_n,
//	_sparse_arccos, _sparse_arccosh, _sparse_arcsin, _sparse_arcsinh, _sparse_arctan, _sparse_arctanh, _sparse_broadcast_add,
//	_sparse_broadcast_div, _sparse_broadcast_minus, _sparse_broadcast_mul, _sparse_broadcast_plus, _sparse_broadcast_sub,
//	_sparse_cbrt, _sparse_ceil, _sparse_clip, _sparse_concat, _sparse_cos, _sparse_cosh, _sparse_degrees, _sparse_dot,
//	_sparse_elemwise_add, _sparse_elemwise_div, _sparse_elemwise_mul, _sparse_elemwise_sub, _sparse_exp, _sparse_expm1,
//	_sparse_fix, _sparse_floor, _sparse_log, _sparse_log10, _sparse_log1p, _sparse_log2, _sparse_log_sigmoid,
//	_sparse_make_loss, _sparse_mean, _sparse_mish, _sparse_negative, _sparse_norm, _sparse_radians, _sparse_relu,
//	_sparse_rint, _sparse_round, _sparse_rsqrt, _sparse_sigmoid, _sparse_sign, _sparse_sin, _sparse_sinh, _sparse_slice,
//	_sparse_sqrt, _sparse_square, _sparse_stop_gradient, _sparse_sum, _sparse_tan, _sparse_tanh, _sparse_trunc, _sparse_where,
//	_sparse_zeros_like, _split_v2, _square_sum, _sub, _sum, _unravel_index, _while_loop, _zeros, _zeros_without_dtype, abs,
//	add_n, amp_cast, amp_multicast, arccos, arccosh, arcsin, arcsinh, arctan, arctanh, argmax, argmax_channel, argmin,
//	argsort, batch_dot, batch_take, box_iou, broadcast_add, broadcast_axes, broadcast_axis, broadcast_div, broadcast_equal,
//	broadcast_greater, broadcast_greater_equal, broadcast_hypot, broadcast_lesser, broadcast_lesser_equal, broadcast_like,
//	broadcast_logical_and, broadcast_logical_or, broadcast_logical_xor, broadcast_maximum, broadcast_minimum, broadcast_minus,
//	broadcast_mod, broadcast_mul, broadcast_not_equal, broadcast_plus, broadcast_power, broadcast_sub, broadcast_to, cast,
//	cbrt, ceil, choose_element_0index, clip, col2im, concat, cos, cosh, crop, cumsum, degrees, depth_to_space, diag, dot,
//	element_wise_sum, elemwise_add, elemwise_div, elemwise_mul, elemwise_sub, erf, exp, expand_dims, expm1, fix, flatten,
//	flip, floor, full, full_like, gather_nd, hard_sigmoid, identity, im2col, khatri_rao, linalg_det, linalg_extractdiag,
//	linalg_extracttrian, linalg_gemm, linalg_gemm2, linalg_makediag, linalg_maketrian, linalg_slogdet, linalg_sumlogdiag,
//	linalg_syrk, linalg_trmm, log, log10, log1p, log2, log_sigmoid, log_softmax, logical_not, make_loss, masked_log_softmax,
//	masked_softmax, max, max_axis, mean, min, min_axis, mish, moments, nanprod, nansum, negative, norm, one_hot, ones,
//	ones_like, pad, pick, prod, quantized_reshape, quantized_transpose, radians, ravel_multi_index, rcbrt, reciprocal, relu,
//	repeat, reshape, reshape_like, reverse, rint, round, rsqrt, scatter_nd, shape_array, sigmoid, sign, sin, sinh, size_array,
//	slice, slice_axis, slice_like, smooth_l1, softmax, softmin, softsign, sort, space_to_depth, split, sqrt, square, squeeze,
//	stack, stop_gradient, sum, sum_axis, swapaxes, take, tan, tanh, tile, topk, transpose, trunc, unravel_index, where, zeros,
//	zeros_like
//
//	own
//
//	Correlation, MultiBoxDetection, MultiBoxPrior, Proposal, _contrib_MultiBoxDetection, _contrib_MultiBoxPrior,
//	_contrib_MultiProposal, _contrib_Proposal, _contrib_box_nms, _contrib_box_non_maximum_suppression, _linalg_inverse,
//	_linalg_potrf, _linalg_potri, _linalg_trsm, _npi_cholesky, _npi_inv, _npi_solve, _npi_tensorinv, _npi_tensorsolve,
//	_npx_box_nms, _npx_digamma, _npx_erfinv, _npx_gamma, _npx_gammaln, _npx_multibox_detection, _npx_multibox_prior,
//	_sparse_digamma, _sparse_gamma, _sparse_gammaln, box_nms, digamma, erfinv, gamma, gammaln, linalg_inverse, linalg_potrf,
//	linalg_potri, linalg_trsm
//
//	refused: it is for training
//
//	CTCLoss, _NoGradient, _adabelief_update, _adamw_update, _contrib_CTCLoss, _contrib_MultiBoxTarget, _contrib_allclose,
//	_contrib_bipartite_matching, _contrib_box_encode, _contrib_calibrate_entropy, _contrib_ctc_loss,
//	_contrib_group_adagrad_update, _contrib_hawkesll, _image_adjust_lighting, _mp_adabelief_update, _mp_adamw_update,
//	_multi_adabelief_update, _multi_adamw_update, _multi_lamb_update, _multi_lans_update, _multi_mp_adabelief_update,
//	_multi_mp_adamw_update, _multi_mp_lamb_update, _multi_mp_lans_update, _npi_all_finite, _npi_multi_all_finite,
//	_npx__image_adjust_lighting, _npx_bipartite_matching, _npx_box_encode, _npx_contrib_calibrate_entropy, _npx_ctc_loss,
//	_npx_multibox_target, _random_pdf_dirichlet, _random_pdf_exponential, _random_pdf_gamma,
//	_random_pdf_generalized_negative_binomial, _random_pdf_negative_binomial, _random_pdf_normal, _random_pdf_poisson,
//	_random_pdf_uniform, _sparse_adagrad_update, _sparse_adam_update, _sparse_ftrl_update, _sparse_sgd_mom_update,
//	_sparse_sgd_update, adam_update, all_finite, ctc_loss, ftml_update, ftrl_update, lamb_update_phase1, lamb_update_phase2,
//	mp_lamb_update_phase1, mp_lamb_update_phase2, mp_nag_mom_update, mp_sgd_mom_update, mp_sgd_update, multi_all_finite,
//	multi_lars, multi_mp_sgd_mom_update, multi_mp_sgd_update, multi_sgd_mom_update, multi_sgd_update, multi_sum_sq,
//	nag_mom_update, preloaded_multi_mp_sgd_mom_update, preloaded_multi_mp_sgd_update, preloaded_multi_sgd_mom_update,
//	preloaded_multi_sgd_update, random_pdf_dirichlet, random_pdf_exponential, random_pdf_gamma,
//	random_pdf_generalized_negative_binomial, random_pdf_negative_binomial, random_pdf_normal, random_pdf_poisson,
//	random_pdf_uniform, reset_arrays, rmsprop_update, rmspropalex_update, sgd_mom_update, sgd_update, signsgd_update,
//	signum_update, softmax_cross_entropy
//
//	refused: it runs code of the model's user
//
//	Custom, _CachedOpThreadSafe, _CustomFunction, _NDArray, _Native, _TVMOp, _npi_Custom
//
//	refused: sparse storage is not kept
//
//	_contrib_dgl_adjacency, _contrib_dgl_csr_neighbor_non_uniform_sample, _contrib_dgl_csr_neighbor_uniform_sample,
//	_contrib_dgl_graph_compact, _contrib_dgl_subgraph, _contrib_edge_id, _contrib_getnnz, _sparse_cast_storage,
//	_sparse_retain, cast_storage
//
//	refused: the shape that it gives is data
//
//	_contrib_dynamic_reshape
//
//	refused: its weights are packed for one library
//
//	_contrib_intgemm_fully_connected, _contrib_intgemm_maxabsolute, _contrib_intgemm_prepare_data,
//	_contrib_intgemm_prepare_weight, _contrib_intgemm_take_weight, _npx_intgemm_fully_connected, _npx_intgemm_maxabsolute,
//	_npx_intgemm_prepare_data, _npx_intgemm_prepare_weight, _npx_intgemm_take_weight
//
//	refused: it writes into its operand, for programs that MXNet runs step by step
//
//	_copyto, _npi_copyto, _npi_share_memory, _npx_constraint_check, _onehot_encode, _set_value, fill_element_0index
//
//	refused: it reads pictures, which are decoded before a model runs
//
//	_cvcopyMakeBorder, _cvimdecode, _cvimread, _cvimresize, _imdecode, _npi_cvimdecode, _npi_cvimread, _npi_cvimresize
//
//	refused: its results are random
//
//	_image_random_brightness, _image_random_color_jitter, _image_random_contrast, _image_random_crop,
//	_image_random_flip_left_right, _image_random_flip_top_bottom, _image_random_hue, _image_random_lighting,
//	_image_random_resized_crop, _image_random_saturation, _npi_bernoulli, _npi_choice, _npi_exponential, _npi_gamma,
//	_npi_gumbel, _npi_laplace, _npi_logistic, _npi_multinomial, _npi_normal, _npi_normal_n, _npi_pareto, _npi_powerd,
//	_npi_random_randint, _npi_rayleigh, _npi_shuffle, _npi_uniform, _npi_uniform_n, _npi_weibull,
//	_npx__image_random_brightness, _npx__image_random_color_jitter, _npx__image_random_contrast, _npx__image_random_crop,
//	_npx__image_random_flip_left_right, _npx__image_random_flip_top_bottom, _npx__image_random_hue,
//	_npx__image_random_lighting, _npx__image_random_resized_crop, _npx__image_random_saturation, _npx__random_categorical,
//	_npx__random_multinomial, _npx_scalar_poisson, _npx_tensor_poisson, _random_binomial, _random_exponential,
//	_random_exponential_like, _random_gamma, _random_gamma_like, _random_generalized_negative_binomial,
//	_random_generalized_negative_binomial_like, _random_negative_binomial, _random_negative_binomial_like, _random_normal,
//	_random_normal_like, _random_poisson, _random_poisson_like, _random_randint, _random_uniform, _random_uniform_like,
//	_sample_binomial, _sample_categorical, _sample_exponential, _sample_gamma, _sample_generalized_negative_binomial,
//	_sample_multinomial, _sample_negative_binomial, _sample_normal, _sample_poisson, _sample_uniform, _sample_unique_zipfian,
//	_shuffle, normal, random_binomial, random_exponential, random_gamma, random_generalized_negative_binomial,
//	random_negative_binomial, random_normal, random_poisson, random_randint, random_uniform, sample_binomial,
//	sample_categorical, sample_exponential, sample_gamma, sample_generalized_negative_binomial, sample_multinomial,
//	sample_negative_binomial, sample_normal, sample_poisson, sample_uniform, shuffle, uniform
//
//	refused: it takes a matrix apart, into factors or eigenvalues, for which there is no kernel
//
//	_linalg_gelqf, _linalg_syevd, _npi_eig, _npi_eigh, _npi_eigvals, _npi_eigvalsh, _npi_lstsq, _npi_matrix_rank,
//	_npi_matrix_rank_none_tol, _npi_pinv, _npi_pinv_scalar_rcond, _npi_qr, _npi_svd, linalg_gelqf, linalg_syevd
//
// What was compared: every operator that MXNet 1.9.1 has computes in specs what that does, with random attributes, and so does nearly
// every name that 2.0.0b1 has, with the attributes left out that may be, and with all of them written, as MXNet 2 does. Read in the
// registry alone were names that 2.0 cannot run on their own or from Python: _npi_copysign_scalar, _npx_cond, _npx_foreach,
// _npx_while_loop, those of quantisation, _sg_onednn_conv and _sg_onednn_fully_connected. Neither version registers CuDNNBatchNorm,
// MultiBoxDetection, MultiBoxPrior, _np_absolute, _np_broadcast_to, _np_hstack, _np_matmul, _np_negative, _np_ones_like, _np_vstack,
// _np_zeros_like, _npi_deg2rad, _npi_ones_like, _npi_rad2deg, _npi_zeros_like, _npx_index_array, _sum, box_iou, box_nms,
// element_wise_sum, full, full_like, ones and zeros: they stand for the operators of nearly that name, for files of versions between,
// and of tools; nor _contrib_quantized_npi_add, _npx_quantized_npi_add and _npx_contrib_quantized_rnn, which MXNet's last source has.
//
// What differs from MXNet: _contrib_quantized_conv of MXNet 1.9.1 with oneDNN says a range of its sums that is 255/127 times too large
// for unsigned data, and adds the integers of a bias as they are, though they stand for other numbers than the sums; here the result is
// what the integers stand for, and as near to the model before quantisation as these allow. Integers of a range m stand for multiples
// of m/127, or m/255, everywhere, where MXNet's quantize_v2 and dequantize count m/127.5 and m/255.5.
// _contrib_quantized_rnn of MXNet rounds weights and states to 8 bits, states by the range of the data, which cuts off what is outside of
// it, and fails, or lets sums overflow, by the kind of processor; here what the data's integers stand for goes through the layers.
// _contrib_quantize_asym, which MXNet ends its process for unless the data have three axes, takes every shape.
// In half precision every operator's result is rounded, as MXNet rounds it, on backends that compute in float32 too: Graph.Meta says
// so under graph.HalfKey. Whoever prefers speed deletes that, and intermediate results are not rounded.
// Functions of several steps are computed in full precision and rounded once: where they were compared, that was half a unit in the last
// place from the exact value at most, scalars being rounded first, as in MXNet. MXNet adds up in half precision, and is the farther one:
// its softmax and softmin by up to 2.3 units, log_softmax 7.8, hard_sigmoid 6.4, prod 1.1, sum, mean and smooth_l1 0.8.
//
// Results of operators that MXNet leaves to chance are 0 (rows of a while loop beyond its last step); the second result of box_nms, and
// statistics of normalisations, which training needs, are not made; dropout is always off.
//
// The package imports graph, graph/tensor, internal/files and internal/offheap of carve, nothing else.
package mxnet
