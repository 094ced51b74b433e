package backendtest_test

import (
	"testing"

	"github.com/carve-dev/carve/backend/backendtest"
)

func TestRandomCases(t *testing.T) {
	const seeds = 12
	for _, op := range backendtest.RandomOperators() {
		refused, last := 0, error(nil)
		for seed := range uint64(seeds) {
			c, err := backendtest.RandomOperator(op, seed)
			if err != nil {
				refused, last = refused+1, err
				continue
			}
			again, err := backendtest.RandomOperator(op, seed)
			if err != nil || c.String() != again.String() {
				t.Errorf("%s: seed %d makes another case the second time", op, seed)
			}
		}
		if refused > seeds/4 {
			t.Errorf("%s: %d cases of %d are refused: %v", op, refused, seeds, last)
		}
	}
	refused := 0
	for seed := range uint64(200) {
		if _, err := backendtest.RandomChain(seed); err != nil {
			refused++
			t.Log(err)
		}
	}
	if refused > 20 {
		t.Errorf("%d chains of 200 are refused", refused)
	}
	refused = 0
	for seed := range uint64(200) {
		if _, err := backendtest.RandomForms(seed, 1); err != nil {
			refused++
			t.Log(err)
		}
	}
	if refused > 20 {
		t.Errorf("%d networks of 200 are refused", refused)
	}
}
