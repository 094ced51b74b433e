package device_test

import (
	"context"
	"fmt"

	"github.com/carve-dev/carve/graph/device"
)

// Memory is reached through the Device that it belongs to; on the host it is a slice as well.
func Example() {
	ctx, d := context.Background(), device.Host
	m, err := d.Alloc(8)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer d.Free(m)
	back := make([]byte, 4)
	fmt.Println(d.CopyTo(ctx, nil, m, 2, []byte{1, 2, 3}), d.CopyFrom(ctx, nil, back, m, 1), back)
	fmt.Println(d.CopyTo(ctx, nil, m, 6, []byte{1, 2, 3}))
	// Output:
	// <nil> <nil> [0 1 2 3]
	// outside of the memory block: 3 bytes at 6 of 8
}
