package reference

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/graph/tensor"
)

var mlKernels = []kernel{
	{"ArrayFeatureExtractor", 1, arrayFeatureExtractor},
	{"Binarizer", 1, func(c *Call) {
		x, t := c.input(0), c.float("threshold", 0)
		c.putFloats(0, x.DType, x.Shape, each(c, c.floats(0), func(v float64) float64 {
			if v > t {
				return 1
			}
			return 0
		}))
	}},
	{"Scaler", 1, scaler},
	{"Normalizer", 1, normalizer},
	{"Imputer", 1, imputer},
	{"FeatureVectorizer", 1, featureVectorizer},
	{"OneHotEncoder", 1, oneHotEncoder},
	{"LabelEncoder", 1, labelEncoder},
	{"CategoryMapper", 1, categoryMapper},
	{"LinearRegressor", 1, linearRegressor},
	{"LinearClassifier", 1, linearClassifier},
	{"ZipMap", 1, zipMap},
	{"CastMap", 1, castMap},
	{"DictVectorizer", 1, dictVectorizer},
}

// rowsAndColumns returns the dims of input 0 as [N, C]; [C] counts as [1, C].
func (c *Call) rowsAndColumns() (n, columns int) {
	x := c.input(0)
	switch len(x.Shape) {
	case 1:
		return 1, x.Shape[0]
	case 2:
		return x.Shape[0], x.Shape[1]
	}
	c.require(false, c.portName(0), "[N, C] is expected, found %v", x)
	return 0, 0
}

// arrayFeatureExtractor takes elements of the last axis. ONNX does not say what places below 0 mean: they are refused, as in ONNX Runtime 1.31,
// whose models with such places fail there too; onnx's own evaluator counts them from the end.
func arrayFeatureExtractor(c *Call) {
	x, at := c.input(0), c.ints(1)
	c.require(len(x.Shape) > 0, c.portName(0), "a scalar")
	last := len(x.Shape) - 1
	n := x.Shape[last]
	shape := append(slices.Clone(x.Shape[:last]), len(at))
	if last == 0 {
		shape = []int{1, len(at)}
	}
	src := c.cells(0)
	c.move(0, x.DType, shape, func(dst cells) {
		rows := product(x.Shape[:last])
		for k, v := range at {
			if rows > 0 && (v < 0 || v >= int64(n)) {
				c.outOfRange(1, v, 0, int64(n)-1)
			}
			c.column(dst, k, len(at), src, int(v), n, rows)
		}
	})
}

// perColumn returns a float list attribute with one number per column, or one for all, or nil.
func (c *Call) perColumn(name string, columns int) func(int) float64 {
	list := c.Node.Floats(name)
	if list == nil {
		return nil
	}
	if len(list) != 1 && len(list) != columns {
		c.fail(name, ErrAttribute, "%d numbers for %d columns", len(list), columns)
	}
	return func(col int) float64 { return float64(list[col%len(list)]) }
}

func scaler(c *Call) {
	_, columns := c.rowsAndColumns()
	offset, scale := c.perColumn("offset", columns), c.perColumn("scale", columns)
	v := c.floats(0)
	for i := range v {
		if offset != nil {
			v[i] -= offset(i % columns)
		}
		if scale != nil {
			v[i] *= scale(i % columns)
		}
	}
	c.putFloats(0, tensor.Float32, c.input(0).Shape, v)
}

// normalizer divides each row by its largest number, by the sum of its magnitudes, or by its length; by nothing where that is
// 0. "MAX" is of the numbers with their signs, as the definition says it, max(X), and ONNX Runtime does it: the row -1, -4, -2
// becomes 1, 4, 2. ONNX's own reference implementation takes the largest magnitude. As in ONNX Runtime NaN is no maximum,
// L1 sums magnitudes where the definition sums, and L2 keeps signs.
func normalizer(c *Call) {
	n, columns := c.rowsAndColumns()
	norm := c.Node.Str("norm", "MAX")
	if norm != "MAX" && norm != "L1" && norm != "L2" {
		c.fail("norm", ErrAttribute, "%q", norm)
	}
	v := c.floats(0)
	for r := range n {
		row := v[r*columns:][:columns]
		s := 0.0
		if norm == "MAX" && len(row) > 0 {
			s = -math.MaxFloat32
		}
		for _, x := range row {
			switch norm {
			case "MAX":
				if x > s { // not where x is NaN
					s = x
				}
			case "L1":
				s += math.Abs(x)
			case "L2":
				s += x * x
			}
		}
		if norm == "L2" {
			s = math.Sqrt(s)
		}
		if s == 0 {
			continue
		}
		for i := range row {
			row[i] /= s
		}
	}
	c.putFloats(0, tensor.Float32, c.input(0).Shape, v)
}

// imputer replaces a value, or NaN, by one number per column.
func imputer(c *Call) {
	x := c.input(0)
	_, columns := c.rowsAndColumns()
	v := c.floats(0)
	if x.DType.IsInt() {
		list, _ := c.Node.Ints("imputed_value_int64s")
		if len(list) != 1 && len(list) != columns || len(list) == 0 {
			c.fail("imputed_value_int64s", ErrAttribute, "%d numbers for %d columns", len(list), columns)
		}
		old := c.Node.Int("replaced_value_int64", 0)
		out := c.ints(0)
		for i, e := range out {
			if e == old {
				out[i] = list[i%columns%len(list)]
			}
		}
		c.putInts(0, x.DType, x.Shape, out)
		return
	}
	fresh := c.perColumn("imputed_value_floats", columns)
	if fresh == nil {
		c.fail("imputed_value_floats", ErrAttribute, "the values are missing")
	}
	old := c.float("replaced_value_float", 0)
	for i, e := range v {
		if e == old || e != e && old != old {
			v[i] = fresh(i % columns)
		}
	}
	c.putFloats(0, x.DType, x.Shape, v)
}

// featureVectorizer joins the columns of its inputs as float32.
func featureVectorizer(c *Call) {
	var parts []*tensor.Tensor
	for i := range c.Inputs {
		t := c.input(i)
		shape := t.Shape
		if len(shape) == 1 {
			shape = []int{1, shape[0]}
		}
		c.require(len(shape) == 2, c.portName(i), "[N, C] is expected, found %v", t)
		v := make([]float32, t.Len())
		for k, f := range c.floats(i) {
			v[k] = float32(f)
		}
		parts = append(parts, tensor.From(v, shape...))
	}
	c.require(len(parts) > 0, "", "no inputs")
	c.join(0, tensor.Float32, parts, 1)
}

func oneHotEncoder(c *Call) {
	x := c.input(0)
	strs := c.Node.Strs("cats_strings")
	ints, _ := c.Node.Ints("cats_int64s")
	at := prepared(c, func() *keyPlaces {
		at := newKeyPlaces()
		for i, s := range strs {
			at.strings[s] = i
		}
		for i, v := range ints {
			at.ints[v] = i
		}
		return at
	})
	n, zeros := max(len(strs), len(ints)), c.Node.Int("zeros", 1) != 0
	out := c.result(0, tensor.Float32, append(slices.Clone(x.Shape), n)).Bytes()
	one := math.Float32bits(1)
	set := func(i, k int) {
		switch {
		case k >= 0:
			binary.LittleEndian.PutUint32(out[4*(i*n+k):], one)
		case !zeros:
			c.fail(c.portName(0), ErrAttribute, "element %d is no category", i)
		}
	}
	if x.DType.IsFloat() { // categories are integers
		c.eachInteger(at, set)
		return
	}
	c.eachPlace(at, x, set)
}

// keyPlaces says where keys have their values.
type keyPlaces struct {
	strings map[string]int
	ints    map[int64]int
	floats  map[float64]int
	nan     int // of every NaN, -1 where it is no key
}

func newKeyPlaces() *keyPlaces {
	return &keyPlaces{map[string]int{}, map[int64]int{}, map[float64]int{}, -1}
}

// eachPlace calls f for each element of an input with its place, -1 where it is no key. Floating-point numbers that are equal have one.
func (c *Call) eachPlace(p *keyPlaces, x *tensor.Tensor, f func(i, place int)) {
	found := func(i, place int, ok bool) {
		if !ok {
			place = -1
		}
		f(i, place)
		c.spend(4)
	}
	switch {
	case x.DType == tensor.String:
		for i, s := range c.strings(0) {
			k, ok := p.strings[s]
			if !ok {
				k = -1
			}
			f(i, k)
			c.spend(4)
		}
	case x.DType.IsFloat():
		for i, v := range c.floats(0) {
			k, ok := p.floats[v]
			if v != v {
				k, ok = p.nan, true
			}
			found(i, k, ok)
		}
	default:
		c.eachInteger(p, f)
	}
}

// eachInteger is eachPlace for an input whose elements are integers, or become some.
func (c *Call) eachInteger(p *keyPlaces, f func(i, place int)) {
	for i, v := range c.ints(0) {
		k, ok := p.ints[v]
		if !ok {
			k = -1
		}
		f(i, k)
		c.spend(4)
	}
}

func categoryMapper(c *Call) {
	x := c.input(0)
	ints, _ := c.Node.Ints("cats_int64s")
	strs := c.Node.Strs("cats_strings")
	if len(ints) != len(strs) {
		c.fail("cats_int64s", ErrAttribute, "%d integers for %d strings", len(ints), len(strs))
	}
	if x.DType == tensor.String {
		m := prepared(c, func() map[string]int64 {
			m := make(map[string]int64, len(strs))
			for i, s := range strs {
				m[s] = ints[i]
			}
			return m
		})
		c.putInts(0, tensor.Int64, x.Shape, each(c, c.strings(0), func(s string) int64 {
			if v, ok := m[s]; ok {
				return v
			}
			return c.Node.Int("default_int64", -1)
		}))
		return
	}
	m := prepared(c, func() map[int64]string {
		m := make(map[int64]string, len(ints))
		for i, v := range ints {
			m[v] = strs[i]
		}
		return m
	})
	c.putStrings(x.Shape, each(c, c.ints(0), func(v int64) string {
		if s, ok := m[v]; ok {
			return s
		}
		return c.Node.Str("default_string", "_Unused")
	}))
}

// listAttr returns the first of some attributes that the node has as a vector.
func (c *Call) listAttr(names ...string) *tensor.Tensor {
	for _, name := range names {
		a := c.Node.Attrs.Lookup(name)
		if a == nil {
			continue
		}
		switch a.Kind {
		case graph.AttrTensor:
			c.check(name, a.Tensor.Check())
			t, err := a.Tensor.Clone()
			c.check(name, err)
			return t
		case graph.AttrInts:
			return tensor.From(slices.Clone(a.Ints))
		case graph.AttrFloats:
			return tensor.From(slices.Clone(a.Floats))
		case graph.AttrStrings:
			return tensor.FromStrings(a.Strs)
		}
	}
	return nil
}

// placesOf returns the places of the elements of a tensor. As in ONNX Runtime the first of equal keys counts, and of a LabelEncoder of version 1
// the last; NaN finds a key that is NaN from version 4 on, which has keys of several types, and none before.
func (c *Call) placesOf(port string, t *tensor.Tensor) *keyPlaces {
	p := newKeyPlaces()
	first := c.version >= 2
	switch {
	case t.DType == tensor.String:
		enter(p.strings, t.Strings[:t.Len()], first)
	case t.DType.IsFloat():
		for i, f := range c.floatsOf(port, t) {
			if f != f && p.nan < 0 && c.version >= 4 {
				p.nan = i
			}
		}
		enter(p.floats, c.floatsOf(port, t), first)
	default:
		enter(p.ints, c.intsOf(port, t), first)
	}
	return p
}

// enter maps keys to their places, the first or the last of equal ones. NaN is equal to none.
func enter[K comparable](m map[K]int, keys []K, first bool) {
	for i, k := range keys {
		if _, there := m[k]; k == k && (!there || !first) {
			m[k] = i
		}
	}
}

// labelMap is where keys of a LabelEncoder have their values.
type labelMap struct {
	at          *keyPlaces
	values, def *tensor.Tensor
}

// labelEncoder maps keys to values.
func labelEncoder(c *Call) {
	x := c.input(0)
	l := prepared(c, c.labelMap)
	src, other := c.cellsOf(l.values), c.cellsOf(l.def)
	c.move(0, l.values.DType, x.Shape, func(dst cells) {
		c.eachPlace(l.at, x, func(i, at int) {
			if at >= 0 {
				dst.copy(i, src, at, 1)
			} else {
				dst.copy(i, other, 0, 1)
			}
		})
	})
}

// labelMap reads the attributes of a LabelEncoder. Version 1 maps strings to their numbers in a list, and back.
func (c *Call) labelMap() *labelMap {
	var keys, values *tensor.Tensor
	if c.version < 2 {
		strs := c.Node.Strs("classes_strings")
		numbers := make([]int64, len(strs))
		for i := range numbers {
			numbers[i] = int64(i)
		}
		keys, values = tensor.FromStrings(strs), tensor.From(numbers)
		if c.input(0).DType != tensor.String {
			keys, values = values, keys
		}
	} else {
		keys = c.listAttr("keys_tensor", "keys_strings", "keys_int64s", "keys_floats")
		values = c.listAttr("values_tensor", "values_strings", "values_int64s", "values_floats")
	}
	if keys == nil || values == nil || keys.Len() != values.Len() {
		c.fail("keys_*", ErrAttribute, "keys %v and values %v", keys, values)
	}
	def := c.Node.TensorAttr("default_tensor")
	switch {
	case def != nil:
		c.check("default_tensor", def.Check())
	case values.DType == tensor.String:
		def = tensor.FromStrings([]string{c.Node.Str("default_string", "_Unused")})
	case values.DType.IsFloat():
		def = tensor.From([]float64{c.float("default_float", math.Copysign(0, -1))})
	default:
		def = tensor.From([]int64{c.Node.Int("default_int64", -1)})
	}
	if def.DType != values.DType {
		converted, err := tensor.Convert(def, values.DType, nil)
		c.check("default_tensor", err)
		def = converted
	}
	c.require(def.Len() == 1, "default_tensor", "%v", def)
	return &labelMap{c.placesOf("keys_*", keys), values, def}
}

// affine returns X [N, C] times coefficients [targets, C] plus intercepts.
func (c *Call) affine(targets int) []float64 {
	n, columns := c.rowsAndColumns()
	list, bias := c.Node.Floats("coefficients"), c.Node.Floats("intercepts")
	c.require(len(list) == targets*columns, "coefficients", "%d for %d targets of %d features", len(list), targets, columns)
	c.require(bias == nil || len(bias) == targets, "intercepts", "%d for %d targets", len(bias), targets)
	w := make([]float64, len(list))
	for i, f := range list {
		w[i] = float64(f)
	}
	out := c.floatBuffer(n, targets)
	gemm(c, n, targets, columns, matrix[float64]{c.floats(0), 0, columns, 1}, matrix[float64]{w, 0, 1, columns}, out)
	for i := range out {
		if bias != nil {
			out[i] += float64(bias[i%targets])
		}
	}
	return out
}

func linearRegressor(c *Call) {
	targets := c.positive("targets", 1)
	v := c.affine(targets)
	for o := 0; o < len(v); o += targets {
		c.postTransform(v[o:o+targets], c.Node.Str("post_transform", "NONE"))
	}
	n, _ := c.rowsAndColumns()
	c.putFloats(0, tensor.Float32, []int{n, targets}, v)
}

// postTransform changes the scores of a row as the attribute of that name says.
func (c *Call) postTransform(row []float64, mode string) {
	switch mode {
	case "NONE":
	case "SOFTMAX":
		softmax(row)
	case "LOGISTIC":
		for i, x := range row {
			row[i] = sigmoid(x)
		}
	case "SOFTMAX_ZERO": // scores of exactly zero stay zero
		m, s := math.Inf(-1), 0.0
		for _, x := range row {
			m = math.Max(m, x)
		}
		for i, x := range row {
			if x != 0 {
				row[i] = math.Exp(x - m)
				s += row[i]
			}
		}
		for i := range row {
			if s > 0 {
				row[i] /= s
			}
		}
	case "PROBIT":
		for i, x := range row {
			row[i] = math.Sqrt2 * math.Erfinv(2*x-1)
		}
	default:
		c.fail("post_transform", ErrAttribute, "%q", mode)
	}
}

// labels are the classes of a classifier, strings or integers.
type labels struct {
	strs []string
	ints []int64
}

// labels reads the labels of a classifier. Attributes of integers are called otherwise in newer operators.
func (c *Call) labels(ints string) labels {
	l := labels{strs: c.Node.Strs("classlabels_strings")}
	l.ints, _ = c.Node.Ints(ints)
	return l
}

func (l labels) len() int { return max(len(l.strs), len(l.ints)) }

// putLabels stores the labels of classes as output 0. Without labels a class is its number.
func (c *Call) putLabels(l labels, classes []int) {
	if len(l.strs) > 0 {
		out := make([]string, len(classes))
		for i, k := range classes {
			out[i] = l.strs[k]
		}
		c.putStrings([]int{len(out)}, out)
		return
	}
	out := make([]int64, len(classes))
	for i, k := range classes {
		out[i] = int64(k)
		if len(l.ints) > 0 {
			out[i] = l.ints[k]
		}
	}
	c.putInts(0, tensor.Int64, []int{len(out)}, out)
}

func argMax(row []float64) int {
	best := 0
	for i, x := range row {
		if x > row[best] {
			best = i
		}
	}
	return best
}

// linearClassifier scores every class; one score for two classes is that of the second.
func linearClassifier(c *Call) {
	n, _ := c.rowsAndColumns()
	l := c.labels("classlabels_ints")
	scores := len(c.Node.Floats("intercepts"))
	if scores == 0 {
		scores = max(l.len(), 1)
	}
	v := c.affine(scores)
	mode := c.Node.Str("post_transform", "NONE")
	classes := make([]int, n)
	width := scores
	if scores == 1 && l.len() == 2 {
		width = 2
	} else {
		c.require(l.len() == 0 || l.len() == scores, "classlabels_*", "%d labels for %d scores", l.len(), scores)
	}
	out := c.floatBuffer(n, width)
	for r := range n {
		row := v[r*scores:][:scores]
		dst := out[r*width:][:width]
		if width == scores {
			classes[r] = argMax(row)
			copy(dst, row)
			c.postTransform(dst, mode)
			continue
		}
		if row[0] > 0 {
			classes[r] = 1
		}
		dst[0], dst[1] = -row[0], row[0]
		if mode == "LOGISTIC" {
			p := sigmoid(row[0])
			dst[0], dst[1] = 1-p, p
		} else {
			c.postTransform(dst, mode)
		}
	}
	c.putLabels(l, classes)
	c.putFloats(1, tensor.Float32, []int{n, width}, out)
}
