package dl_test

import (
	"errors"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve/internal/dl"
)

var _ = Describe("opened libraries", func() {
	type library struct{ name string }
	absent := errors.New("absent")

	It("are the first that load takes, once", func() {
		var opened dl.Opened[library]
		loads := 0
		load := func(name string) (*library, error) {
			loads++
			if name == "old" {
				return nil, absent
			}
			return &library{name}, nil
		}
		first, err := opened.First([]string{"old", "new", "newer"}, load)
		Expect(err).NotTo(HaveOccurred())
		Expect(first.name).To(Equal("new"))
		Expect(loads).To(Equal(2))
		again, err := opened.First([]string{"new"}, load)
		Expect(err).NotTo(HaveOccurred())
		Expect(again).To(BeIdenticalTo(first))
		Expect(loads).To(Equal(2))
	})

	It("are none where load takes none, with every reason", func() {
		var opened dl.Opened[library]
		one, two := errors.New("one"), errors.New("two")
		_, err := opened.First([]string{"1", "2"}, func(name string) (*library, error) {
			if name == "1" {
				return nil, one
			}
			return nil, two
		})
		Expect(err).To(And(MatchError(one), MatchError(two)))
	})
})
