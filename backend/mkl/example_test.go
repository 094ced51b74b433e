package mkl_test

import (
	"errors"
	"fmt"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/backend/mkl"
)

// A program asks for the backend by name; where the library is absent, the error says so, and the program goes on without.
func ExampleOpen() {
	_, err := mkl.Open(backend.Config{Options: map[string]string{"library": "/no/such/libdnnl.so"}})
	fmt.Println(errors.Is(err, backend.ErrUnavailable))
	// Output: true
}
