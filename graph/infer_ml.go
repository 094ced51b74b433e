package graph

import "github.com/carve-dev/carve/graph/tensor"

// labelsType returns the type of class labels and their number, from attributes of strings or integers.
func (c *Inference) labelsType(strings, ints string) (tensor.DType, int) {
	if s := c.Node.Strs(strings); len(s) > 0 {
		return tensor.String, len(s)
	}
	list, _ := c.Node.Ints(ints)
	return tensor.Int64, len(list)
}

// rows returns the number of rows of input 0: its first dim, or 1 for a vector.
func (c *Inference) rows() Dim {
	if s := c.Shape(0); s != nil && len(s) < 2 {
		return D(1)
	}
	return c.dim(0, 0)
}

// inferArrayFeatureExtractor: the elements of the last axis that Y names.
func inferArrayFeatureExtractor(c *Inference) error {
	if err := c.needRank(0, 1, anyRank); err != nil {
		return err
	}
	x, y := c.Shape(0), c.Shape(1)
	n, ok := numElements(y)
	if !ok {
		n = c.Fresh()
	}
	switch {
	case x == nil:
		return c.SetShape(0, nil)
	case len(x) == 1:
		return c.SetShape(0, Shape{D(1), n})
	}
	return c.SetShape(0, append(append(Shape{}, x[:len(x)-1]...), n))
}

// inferClassifier: labels [N] and scores [N, classes].
func inferClassifier(c *Inference) error {
	dt, n := c.labelsType("classlabels_strings", "classlabels_int64s")
	if c.hasAttr("classlabels_ints") {
		dt, n = c.labelsType("classlabels_strings", "classlabels_ints")
	}
	classes := c.Fresh()
	if c.Node.Op.Name == "SVMClassifier" {
		classes = c.machineScores(n)
	} else if n > 0 {
		classes = D(n)
	}
	if err := c.SetTensor(0, dt, Shape{c.rows()}); err != nil {
		return err
	}
	return c.SetTensor(1, tensor.Float32, Shape{c.rows(), classes})
}

// machineScores returns how many numbers a support vector machine gives for a row: one for each class where it has no vectors, or
// makes probabilities, two for two classes, and else one for each pair of them.
func (c *Inference) machineScores(labels int) Dim {
	classes := max(labels, 1)
	if classes > 1<<15 {
		return c.Fresh()
	}
	per, _ := c.Node.Ints("vectors_per_class")
	vectors := false
	for _, v := range per {
		vectors = vectors || v != 0
	}
	if !vectors || len(c.Node.Floats("prob_a")) > 0 || classes == 2 {
		return D(classes)
	}
	return D(max(classes*(classes-1)/2, 1))
}

// inferRegressor: [N, targets].
func inferRegressor(c *Inference) error {
	n := int64(1)
	switch c.Node.Op.Name {
	case "LinearRegressor":
		n = c.Node.Int("targets", 1)
	case "TreeEnsembleRegressor", "TreeEnsemble":
		if n = c.Node.Int("n_targets", 0); c.Node.Attrs.Lookup("n_targets") == nil {
			return c.SetShape(0, Shape{c.rows(), c.Fresh()})
		}
	}
	return c.SetShape(0, Shape{c.rows(), Dim{c: n}})
}

// inferLabelEncoder: the shape of X, of the type of the values.
func inferLabelEncoder(c *Inference) error {
	dt := tensor.Invalid
	switch {
	case c.Node.Schema.Since < 2:
		if dt = tensor.String; c.DType(0) == tensor.String {
			dt = tensor.Int64
		}
	case c.Node.Attrs.Lookup("values_tensor") != nil:
		dt = c.Node.TensorAttr("values_tensor").DType
	case c.Node.Attrs.Lookup("values_strings") != nil:
		dt = tensor.String
	case c.Node.Attrs.Lookup("values_int64s") != nil:
		dt = tensor.Int64
	case c.Node.Attrs.Lookup("values_floats") != nil:
		dt = tensor.Float32
	}
	return c.SetTensor(0, dt, c.Shape(0))
}

// inferCategoryMapper: strings to integers and back.
func inferCategoryMapper(c *Inference) error {
	dt := tensor.Invalid
	switch c.DType(0) {
	case tensor.String:
		dt = tensor.Int64
	case tensor.Int64:
		dt = tensor.String
	}
	return c.SetTensor(0, dt, c.Shape(0))
}

// inferOneHotEncoder: one more dim for the categories.
func inferOneHotEncoder(c *Inference) error {
	ints, _ := c.Node.Ints("cats_int64s")
	n := max(len(ints), len(c.Node.Strs("cats_strings")))
	if c.Shape(0) == nil {
		return c.SetShape(0, nil)
	}
	return c.SetShape(0, append(append(Shape{}, c.Shape(0)...), D(n)))
}

// inferFeatureVectorizer: [N, sum of inputdimensions].
func inferFeatureVectorizer(c *Inference) error {
	list, ok := c.Node.Ints("inputdimensions")
	width := c.Fresh()
	if ok {
		width = D(0)
		for _, n := range list {
			if n < 0 || n > maxExtent {
				return c.attrError("inputdimensions", "numbers of at least 0", n)
			}
			width = width.Add(Dim{c: n})
		}
	}
	return c.SetShape(0, Shape{c.rows(), width})
}

// inferCastMap: the values of a map as a row of numbers or strings.
func inferCastMap(c *Inference) error {
	dt := tensor.Float32
	switch to := c.Node.Str("cast_to", "TO_FLOAT"); to {
	case "TO_FLOAT":
	case "TO_STRING":
		dt = tensor.String
	case "TO_INT64":
		dt = tensor.Int64
	default:
		return c.attrError("cast_to", "TO_FLOAT, TO_STRING or TO_INT64", to)
	}
	n := c.Fresh()
	if c.Node.Str("map_form", "DENSE") == "SPARSE" {
		n = Dim{c: c.Node.Int("max_map", 1)}
	}
	return c.SetTensor(0, dt, Shape{D(1), n})
}

// inferDictVectorizer: [1, size of the vocabulary], of the type of the map's values.
func inferDictVectorizer(c *Inference) error {
	_, n := c.labelsType("string_vocabulary", "int64_vocabulary")
	dt := tensor.Invalid
	if t := c.Type(0); t.Kind == KindMap && t.Elem != nil {
		dt = t.Elem.DType
	}
	return c.SetTensor(0, dt, Shape{D(1), D(n)})
}

// inferZipMap: a map from label to score per row.
func inferZipMap(c *Inference) error {
	dt, _ := c.labelsType("classlabels_strings", "classlabels_int64s")
	score := TensorType(tensor.Float32, Shape{})
	c.SetType(0, SequenceOf(Type{Kind: KindMap, DType: dt, Elem: &score}))
	return nil
}
