package lab

import (
	"reflect"
	"strings"
	"testing"
)

func TestParseFaults(t *testing.T) {
	t.Parallel()
	tests := []struct {
		words []string
		want  Faults
		err   string
	}{
		{nil, Faults{}, ""},
		{[]string{"refuse_forward", "server_dies_after=3", "client=slow", "client_concurrency=16", "start_delay_s=0.5"},
			Faults{RefuseForward: true, ServerDiesAfter: 3, Client: ClientSlow, ClientConcurrency: 16, StartDelay: 0.5}, ""},
		{[]string{`hcas=["mlx5_0"]`, "netdev=eth7", "once"}, Faults{HCAs: []string{"mlx5_0"}, Netdev: "eth7", Once: true}, ""},
		{[]string{"refuse_forwards"}, Faults{}, "unknown field"},
		{[]string{"server_dies_after=soon"}, Faults{}, "server_dies_after"},
		{[]string{"client=asleep"}, Faults{Client: "asleep"}, `want one of ["hangs"`},
	}
	for _, tt := range tests {
		got, err := ParseFaults(tt.words)
		if tt.err == "" && (err != nil || !reflect.DeepEqual(got, tt.want)) {
			t.Errorf("%q: %+v, %v", tt.words, got, err)
		}
		if tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
			t.Errorf("%q: error %v, want %q", tt.words, err, tt.err)
		}
	}
}
