package lower

import (
	"slices"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/internal/gpukernel"
)

// structured returns the operators that are more than one expression, by name.
func structured() map[string]func(*lowering, *graph.Node) error {
	list := map[string]func(*lowering, *graph.Node) error{
		"Cast": (*lowering).cast, "Clip": (*lowering).clip, "Gelu": (*lowering).gelu,
		"Reshape": (*lowering).reshape, "Flatten": (*lowering).reshape, "Squeeze": (*lowering).reshape, "Unsqueeze": (*lowering).reshape,
		"Transpose": (*lowering).transpose, "Expand": (*lowering).expand, "Slice": (*lowering).slice, "Concat": (*lowering).concat,
		"Pad": (*lowering).pad, "Gather": (*lowering).gather, "Split": (*lowering).split, "Tile": (*lowering).tile,
		"Softmax": (*lowering).softmax, "LogSoftmax": (*lowering).softmax, "LayerNormalization": (*lowering).layerNorm,
		"ArgMax": (*lowering).argExtreme, "ArgMin": (*lowering).argExtreme, "Hardmax": (*lowering).hardmax, "OneHot": (*lowering).oneHot,
		"Trilu": (*lowering).trilu, "EyeLike": (*lowering).eyeLike, "GatherElements": (*lowering).gatherElements, "GatherND": (*lowering).gatherND,
		"ReverseSequence": (*lowering).reverseSequence, "DepthToSpace": (*lowering).depthSpace, "SpaceToDepth": (*lowering).depthSpace,
		"CumSum": (*lowering).cumulative, "CumProd": (*lowering).cumulative, "Resize": (*lowering).resize, "Upsample": (*lowering).resize,
		"InstanceNormalization": (*lowering).instanceNorm, "GroupNormalization": (*lowering).groupNorm, "RMSNormalization": (*lowering).rmsNorm,
		"MeanVarianceNormalization": (*lowering).meanVariance, "LpNormalization": (*lowering).lpNorm, "LRN": (*lowering).lrn,
		"ReduceLogSumExp": (*lowering).logSumExp, "NegativeLogLikelihoodLoss": (*lowering).likelihoodLoss,
		"SoftmaxCrossEntropyLoss": (*lowering).crossEntropy, "Mod": (*lowering).mod, "BitShift": (*lowering).bitShift, "IsInf": (*lowering).isInf,
		"Shrink": (*lowering).shrink, "Mean": (*lowering).meanOf, "CastLike": (*lowering).cast, "LpPool": (*lowering).lpPool,
		"QuantizeLinear": (*lowering).quantize, "DequantizeLinear": (*lowering).dequantize, "ConstantOfShape": (*lowering).constantOfShape,
		"BatchNormalization": (*lowering).batchNorm, "Dropout": (*lowering).dropout,
		"MaxPool": (*lowering).pool, "AveragePool": (*lowering).pool, "GlobalAveragePool": (*lowering).globalPool, "GlobalMaxPool": (*lowering).globalPool,
		"GridSample": (*lowering).gridSample, "Scatter": (*lowering).scatterElements, "ScatterElements": (*lowering).scatterElements,
		"ScatterND": (*lowering).scatterND, "TensorScatter": (*lowering).tensorScatter, "RotaryEmbedding": (*lowering).rotary,
		"CausalConvWithState": (*lowering).causalConv, "MatMulInteger": (*lowering).matMulInteger, "QLinearMatMul": (*lowering).qLinearMatMul,
		"DynamicQuantizeLinear": (*lowering).dynamicQuantize, "BitCast": (*lowering).bitCast,
	}
	for name := range reductions() {
		list[name] = (*lowering).reduction
	}
	return list
}

func (l *lowering) reshape(n *graph.Node) error {
	x, err := l.operand(n, 0)
	if err != nil {
		return err
	}
	return l.result(n, 0, x)
}

func (l *lowering) transpose(n *graph.Node) error {
	x, err := l.operand(n, 0)
	if err != nil {
		return err
	}
	rank := len(l.p.Shape(x))
	perm := make([]int, rank)
	for i := range perm {
		perm[i] = rank - 1 - i
	}
	if list, ok := n.Ints("perm"); ok {
		if perm, err = graph.NormAxes(list, rank); err != nil {
			return refuse("%v", err)
		}
	}
	return l.result(n, 0, l.p.Transpose(x, perm...))
}

func (l *lowering) expand(n *graph.Node) error {
	x, err := l.operand(n, 0)
	if err != nil {
		return err
	}
	_, shape, err := TypeOf(n.Outputs[0])
	if err != nil {
		return err
	}
	return l.result(n, 0, l.p.Expand(x, shape...))
}

func (l *lowering) slice(n *graph.Node) error {
	x, err := l.operand(n, 0)
	if err != nil {
		return err
	}
	in := l.p.Shape(x)
	starts, ok := n.Ints("starts")
	axes, hasAxes := n.Ints("axes")
	var steps []int64
	if !ok {
		if starts, ok, err = integers(n, 1); err != nil || !ok {
			return refuse("starts are not constant")
		}
		if axes, hasAxes, err = integers(n, 3); err != nil {
			return err
		}
		if steps, _, err = integers(n, 4); err != nil {
			return err
		}
	}
	if !hasAxes {
		for i := range starts {
			axes = append(axes, int64(i))
		}
	}
	norm, err := graph.NormAxes(axes, len(in))
	if err != nil || len(norm) != len(starts) {
		return refuse("axes %v", axes)
	}
	_, shape, err := TypeOf(n.Outputs[0])
	if err != nil {
		return err
	}
	first, step := make([]int, len(in)), slices.Repeat([]int{1}, len(in))
	for i, a := range norm {
		by := int64(1)
		if steps != nil {
			by = steps[i]
		}
		if by == 0 || by > 1<<30 || by < -1<<30 {
			return refuse("a step of %d", by)
		}
		end := int64(1 << 62)
		if by < 0 {
			end = -1 << 62
		}
		at, _ := graph.SliceRange(int64(in[a]), starts[i], end, by)
		first[a], step[a] = int(at), int(by)
		if last := first[a] + (shape[a]-1)*step[a]; last < 0 || last >= in[a] {
			return refuse("a slice beyond the end")
		}
	}
	return l.result(n, 0, l.p.Slice(x, shape, first, step))
}

func (l *lowering) concat(n *graph.Node) error {
	in := make([]gpukernel.Value, len(n.Inputs))
	for i := range in {
		var err error
		if in[i], err = l.operand(n, i); err != nil {
			return err
		}
	}
	axis, err := graph.NormAxis(n.Int("axis", 1), len(l.p.Shape(in[0])))
	if err != nil {
		return refuse("%v", err)
	}
	return l.result(n, 0, l.p.Concat(axis, in...))
}

func (l *lowering) gather(n *graph.Node) error {
	x, err := l.operand(n, 0)
	if err != nil {
		return err
	}
	indices, err := l.operand(n, 1)
	if err != nil {
		return err
	}
	axis, err := graph.NormAxis(n.Int("axis", 0), len(l.p.Shape(x)))
	if err != nil {
		return refuse("%v", err)
	}
	return l.result(n, 0, l.p.Gather(x, indices, axis))
}

func (l *lowering) split(n *graph.Node) error {
	x, err := l.operand(n, 0)
	if err != nil {
		return err
	}
	in := l.p.Shape(x)
	axis, err := graph.NormAxis(n.Int("axis", 0), len(in))
	if err != nil {
		return refuse("%v", err)
	}
	starts, steps := make([]int, len(in)), slices.Repeat([]int{1}, len(in))
	for i, v := range n.Outputs {
		if v == nil {
			return refuse("output %d is left out", i)
		}
		_, shape, err := TypeOf(v)
		if err != nil {
			return err
		}
		if err := l.result(n, i, l.p.Slice(x, shape, starts, steps)); err != nil {
			return err
		}
		starts[axis] += shape[axis]
	}
	return nil
}

func (l *lowering) tile(n *graph.Node) error {
	x, err := l.operand(n, 0)
	if err != nil {
		return err
	}
	_, out, err := TypeOf(n.Outputs[0])
	if err != nil {
		return err
	}
	var split, repeated []int
	for i, d := range l.p.Shape(x) {
		split, repeated = append(split, 1, d), append(repeated, out[i]/d, d)
	}
	return l.result(n, 0, l.p.Expand(l.p.Reshape(x, split...), repeated...))
}
