// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package percent_test

import (
	"fmt"
	"math"
	"math/big"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"github.com/unitedworkloads/united/controllers/united/percent"
)

func TestParse(t *testing.T) {
	for p := range int32(101) {
		s := fmt.Sprintf("%d%%", p)
		got, err := percent.Parse(intstr.FromString(s))
		if err != nil || got != (percent.Amount{Value: p, IsPercent: true}) {
			t.Errorf("Parse(%q) = %+v, %v", s, got, err)
		}
		if want := fmt.Sprintf("%q", s); got.String() != want {
			t.Errorf("String() = %s, want %s", got, want)
		}
	}
	for _, n := range []int32{0, 1, 101, math.MaxInt32} {
		got, err := percent.Parse(intstr.FromInt32(n))
		if err != nil || got != (percent.Amount{Value: n}) {
			t.Errorf("Parse(%d) = %+v, %v", n, got, err)
		}
		if want := fmt.Sprint(n); got.String() != want {
			t.Errorf("String() = %s, want %s", got, want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	long := strings.Repeat("9", 5000) + "%"
	tests := []struct {
		value intstr.IntOrString
		named string
	}{
		{intstr.FromInt32(-1), "-1 is neither"},
		{intstr.FromInt32(math.MinInt32), "-2147483648 is neither"},
		{intstr.FromString(""), `"" is neither`},
		{intstr.FromString("5"), `"5" is neither`},
		{intstr.FromString("%"), `"%" is neither`},
		{intstr.FromString("%%"), `"%%" is neither`},
		{intstr.FromString("5%%"), `"5%%" is neither`},
		{intstr.FromString("050%"), `"050%" is neither`},
		{intstr.FromString("00%"), `"00%" is neither`},
		{intstr.FromString("-0%"), `"-0%" is neither`},
		{intstr.FromString("-1%"), `"-1%" is neither`},
		{intstr.FromString("+5%"), `"+5%" is neither`},
		{intstr.FromString(" 5%"), `" 5%" is neither`},
		{intstr.FromString("5 %"), `"5 %" is neither`},
		{intstr.FromString("5% "), `"5% " is neither`},
		{intstr.FromString("5%\n"), `"5%\n" is neither`},
		{intstr.FromString("1.5%"), `"1.5%" is neither`},
		{intstr.FromString("1e1%"), `"1e1%" is neither`},
		{intstr.FromString("0x5%"), `"0x5%" is neither`},
		{intstr.FromString("٥%"), `"٥%" is neither`},
		{intstr.FromString("101%"), `"101%" is neither`},
		{intstr.FromString("4294967297%"), `"4294967297%" is neither`},
		{intstr.FromString("all"), `"all" is neither`},
		{intstr.FromString(long), `"` + long[:40] + `" is neither`},
		{intstr.IntOrString{Type: 7, IntVal: 3}, "3 is neither"},
	}
	for _, tt := range tests {
		t.Run(tt.named, func(t *testing.T) {
			got, err := percent.Parse(tt.value)
			if err == nil {
				t.Fatalf("Parse = %+v, want an error", got)
			}
			if !strings.HasPrefix(err.Error(), tt.named) {
				t.Errorf("error %q does not begin with %q", err, tt.named)
			}
		})
	}
}

func TestCeilIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, n := rapid.Int32Range(0, 100).Draw(t, "p"), rapid.Int32Min(0).Draw(t, "n")
		product := new(big.Int).Mul(big.NewInt(int64(p)), big.NewInt(int64(n)))
		want, remainder := new(big.Int).QuoRem(product, big.NewInt(100), new(big.Int))
		floor := want.Int64()
		if remainder.Sign() > 0 {
			want.Add(want, big.NewInt(1))
		}
		if got := percent.Ceil(p, n); int64(got) != want.Int64() {
			t.Fatalf("Ceil(%d, %d) = %d, want %d", p, n, got, want)
		}
		if got := n - percent.Ceil(100-p, n); int64(got) != floor {
			t.Fatalf("floor of %d%% of %d = %d, want %d", p, n, got, floor)
		}
	})
	if got := percent.Ceil(50, -3); got != 0 {
		t.Errorf("Ceil(50, -3) = %d, want 0", got)
	}
}
