package element

import "github.com/carve-dev/carve/internal/kernel/isa"

// Bilinear writes sums of the products of four elements of a plane with four weights each: of that at first, that behind it, and the two that lie width farther. All lie
// in the plane: to look for one that does not takes longer than the sums.
func Bilinear(set isa.Set, dst, plane []float32, first []int32, weights []float32, width int) {
	bilinearOf(set, bilinear, dst, plane, first, weights, width)
}

// BilinearDoubles is Bilinear of float64.
func BilinearDoubles(set isa.Set, dst, plane []float64, first []int32, weights []float64, width int) {
	bilinearOf(set, bilinearWide, dst, plane, first, weights, width)
}

func bilinearOf[T float32 | float64](set isa.Set, kernel func(set isa.Set, dst, plane *T, first *int32, weights *T, width, n int), dst, plane []T, first []int32, weights []T, width int) {
	n := len(dst)
	first, weights = first[:n], weights[:4*n]
	done := 0
	if hasKernels(set) && n >= 4 {
		for groups := n / 4; groups > 0; {
			some := min(groups, most)
			kernel(set, &dst[done], &plane[0], &first[done], &weights[4*done], width, some)
			groups, done = groups-some, done+4*some
		}
	}
	for i := done; i < n; i++ {
		w := weights[4*i:][:4]
		a := plane[first[i]:]
		b := a[width:]
		dst[i] = a[0]*w[0] + a[1]*w[1] + (b[0]*w[2] + b[1]*w[3])
	}
}
