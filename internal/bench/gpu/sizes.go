package main

// sizes are how large what is measured is.
type sizes struct {
	copied    int // elements of float32 of a copy
	rounds    int // of multiply-adds
	elements  int // of element-wise operators, norms and softmax
	softmaxes []int
	norms     []int
	squares   []int
	products  [][3]int // others, M, N, K
	images    int      // of convolutions
	window    int      // the largest image, 0 for all
	channels  int      // the most, 0 for all
	attention [][4]int // batch, heads, sequence, depth
}

// sizesOf returns sizes by name: "full" for a graphics processor, whose caches they exceed, "small" for one that is played by a processor.
func sizesOf(name string) (sizes, bool) {
	switch name {
	case "full":
		return sizes{
			copied: 1 << 28, rounds: 4096, elements: 1 << 26, softmaxes: []int{128, 1000, 4096, 50257}, norms: []int{768, 1024, 4096},
			squares: []int{8192, 4096, 2048, 1024}, images: 32,
			// A block of BERT and of a vision transformer at a batch of 32, and of BERT for one sequence and for four.
			products: [][3]int{{4096, 768, 768}, {4096, 3072, 768}, {4096, 768, 3072}, {6304, 3072, 768}, {128, 768, 768}, {128, 3072, 768}, {128, 768, 3072},
				{512, 768, 768}, {512, 3072, 768}, {512, 768, 3072}},
			// BERT and a vision transformer at a batch of 32, and longer sequences.
			attention: [][4]int{{32, 12, 128, 64}, {32, 12, 197, 64}, {8, 12, 1024, 64}, {4, 16, 2048, 128}},
		}, true
	case "small":
		return sizes{
			copied: 1 << 14, rounds: 16, elements: 1 << 12, softmaxes: []int{32}, norms: []int{64}, squares: []int{64}, products: [][3]int{{8, 32, 16}},
			images: 1, window: 8, channels: 8, attention: [][4]int{{1, 2, 16, 32}},
		}, true
	}
	return sizes{}, false
}
