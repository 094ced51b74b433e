package vec

// LSTM writes the element-wise part of an LSTM cell with the default activations, on slices of one length: the gates i, o, f
// and g (the candidate, c in ONNX) before activation, the previous cell state, and the results
// cell = sigmoid(f)·prev + sigmoid(i)·tanh(g) and hidden = sigmoid(o)·tanh(cell). cell may be prev.
func (v Kernels) LSTM(cell, hidden, i, o, f, g, prev []float32) {
	n := len(cell)
	if n == 0 {
		return
	}
	ci, hi := at(cell, n), at(hidden, n)
	pi, po, pf, pg, pp := at(i, n), at(o, n), at(f, n), at(g, n), at(prev, n)
	for k := 0; k < n; k += blockElements {
		lstm(v.set, advance(pi, k), advance(po, k), advance(pf, k), advance(pg, k), advance(pp, k), advance(ci, k), advance(hi, k), min(blockElements, n-k))
	}
}

// GRUReset writes dst = sigmoid(r)·x + y for slices of one length; y may be nil, which counts as 0. With x = the previous
// hidden state it is what the recurrent weights of the candidate are applied to; with linear_before_reset, x is the
// recurrent part and y the input's part of the candidate.
func (v Kernels) GRUReset(dst, r, x, y []float32) {
	n := len(dst)
	if n == 0 {
		return
	}
	d, pr, px := at(dst, n), at(r, n), at(x, n)
	var py *float32
	if y != nil {
		py = at(y, n)
	}
	for k := 0; k < n; k += blockElements {
		gruReset(v.set, advance(d, k), advance(pr, k), advance(px, k), advance(py, k), min(blockElements, n-k))
	}
}

// GRU writes the new hidden state of a GRU cell with the default activations, dst = (1-u)·tanh(h) + u·prev with
// u = sigmoid(z), for slices of one length: z and h are the update gate and the candidate before activation. dst may be
// prev.
func (v Kernels) GRU(dst, z, h, prev []float32) {
	n := len(dst)
	if n == 0 {
		return
	}
	d, pz, ph, pp := at(dst, n), at(z, n), at(h, n), at(prev, n)
	for k := 0; k < n; k += blockElements {
		gru(v.set, advance(d, k), advance(pz, k), advance(ph, k), advance(pp, k), min(blockElements, n-k))
	}
}

func genericLSTM(i, o, f, g, prev, cell, hidden *float32, n int) {
	pi, po, pf, pg, pp := view(i, n), view(o, n), view(f, n), view(g, n), view(prev, n)
	c, h := view(cell, n), view(hidden, n)
	for k := range n {
		v := sigmoid(pf[k])*pp[k] + sigmoid(pi[k])*tanh(pg[k])
		out := sigmoid(po[k])
		c[k] = v
		h[k] = out * tanh(v)
	}
}

func genericGRUReset(dst, r, x, y *float32, n int) {
	d, pr, px := view(dst, n), view(r, n), view(x, n)
	for k := range n {
		v := sigmoid(pr[k]) * px[k]
		if y != nil {
			v += *advance(y, k)
		}
		d[k] = v
	}
}

func genericGRU(dst, z, h, prev *float32, n int) {
	d, pz, ph, pp := view(dst, n), view(z, n), view(h, n), view(prev, n)
	for k := range n {
		t := tanh(ph[k])
		d[k] = t + sigmoid(pz[k])*(pp[k]-t)
	}
}
