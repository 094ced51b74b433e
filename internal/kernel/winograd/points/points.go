// Package points has the numbers of Winograd's filtering algorithms for kernels of three taps: what package winograd and the
// generator of its assembly share. It is a leaf.
package points

// Sizes are the sides of the tiles of results that there are.
const (
	F2 = 2
	F4 = 4
)

// MaxSide is the side of the largest tile of source pixels.
const MaxSide = F4 + 2

// Pairs returns the pairs ±p of points of F(m), beside 0 and ∞.
func Pairs(m int) []float64 {
	if m == F2 {
		return []float64{1}
	}
	return []float64{5.0 / 8, 3.0 / 2}
}

// All returns the finite points of F(m) in the order of the rows of its matrices: 0, +p, -p for each pair.
func All(m int) []float64 {
	list := []float64{0}
	for _, p := range Pairs(m) {
		list = append(list, p, -p)
	}
	return list
}

// EvenPoly returns the coefficients q of Σ q[k]·x^2k, the product of x²-p² over the pairs of F(m) but the one numbered without.
func EvenPoly(m, without int) []float64 {
	q := []float64{1}
	for i, p := range Pairs(m) {
		if i == without {
			continue
		}
		next := make([]float64, len(q)+1)
		for k, c := range q {
			next[k] -= c * p * p
			next[k+1] += c
		}
		q = next
	}
	return q
}

// Scale returns the product of the distances of the finite point of F(m) numbered i to the others: by its reciprocal, rows of G
// are scaled.
func Scale(m, i int) float64 {
	n := 1.0
	all := All(m)
	for k, q := range all {
		if k != i {
			n *= all[i] - q
		}
	}
	return n
}

// FilterRows returns the matrix G of F(m): one row of three for each point.
func FilterRows(m int) [][3]float64 {
	var g [][3]float64
	for i, p := range All(m) {
		n := Scale(m, i)
		g = append(g, [3]float64{1 / n, p / n, p * p / n})
	}
	return append(g, [3]float64{0, 0, 1})
}
