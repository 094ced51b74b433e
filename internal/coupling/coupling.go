// Package coupling makes probabilities of classes of the scores of pairs of classes, as support vector machines have them.
package coupling

import "math"

// Scratch returns how many numbers Probabilities needs to work with, for n classes.
func Scratch(n int) int { return 2*n*n + n }

// Probabilities sets p to the probabilities of len(p) classes. scores, a and b have a number for each pair of classes (0, 1), (0, 2), …,
// (1, 2), …: the first of a pair wins over the other with probability 1/(1+exp(a·score+b)), within 1e-7 of 0 and 1. What follows is the
// fixed point of T. Wu, C. Lin, R. Weng, "Probability estimates for multi-class classification by pairwise coupling", method 2 (JMLR 5,
// 2004). It takes O(n²) operations an iteration, at most max(100, n) of them.
func Probabilities(p, scores, a, b, scratch []float64) {
	n := len(p)
	pair, q, qp := scratch[:n*n], scratch[n*n:][:n*n], scratch[2*n*n:][:n]
	k := 0
	for i := range n {
		for j := i + 1; j < n; j++ {
			r := math.Min(math.Max(1/(1+math.Exp(scores[k]*a[k]+b[k])), 1e-7), 1-1e-7)
			pair[i*n+j], pair[j*n+i] = r, 1-r
			k++
		}
	}
	clear(q)
	for i := range n {
		p[i] = 1 / float64(n)
		for j := range n {
			if j != i {
				q[i*n+i] += pair[j*n+i] * pair[j*n+i]
				q[i*n+j] = -pair[j*n+i] * pair[i*n+j]
			}
		}
	}
	eps := 0.005 / float64(n)
	for range max(100, n) {
		pqp, worst := 0.0, 0.0
		for i := range n {
			qp[i] = 0
			for j := range n {
				qp[i] += q[i*n+j] * p[j]
			}
			pqp += p[i] * qp[i]
		}
		for i := range n {
			worst = math.Max(worst, math.Abs(qp[i]-pqp))
		}
		if worst < eps {
			break
		}
		for i := range n {
			d := (pqp - qp[i]) / q[i*n+i]
			p[i] += d
			pqp = (pqp + d*(d*q[i*n+i]+2*qp[i])) / (1 + d) / (1 + d)
			for j := range n {
				qp[j] = (qp[j] + d*q[i*n+j]) / (1 + d)
				p[j] /= 1 + d
			}
		}
	}
}
