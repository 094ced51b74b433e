package microsoft_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/graph/microsoft"
)

var _ = It("knows how many rows a cache that slides holds", func() {
	for room := range 9 {
		for window := 1; window <= room; window++ {
			held := 0
			for tokens := range 40 {
				Expect(microsoft.GQAResident(tokens, room, window)).To(Equal(held), "%d tokens, room for %d, a window of %d", tokens, room, window)
				if held == room { // the next one has no place
					held = window - 1
				}
				held++
			}
		}
	}
})
