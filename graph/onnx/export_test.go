package onnx

import "context"

// SaveSome is Save in a process that ends behind so many steps; done says whether it did all of them.
func SaveSome(ctx context.Context, path string, m *Model, o *SaveOptions, n int) (done bool, err error) {
	steps, _, err := prepare(ctx, path, m, o)
	for i := 0; err == nil && i < min(n, len(steps)); i++ {
		err = steps[i]()
	}
	return n >= len(steps), err
}
