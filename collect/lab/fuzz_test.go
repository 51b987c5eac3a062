package lab

import (
	"strings"
	"testing"
)

// FuzzArguments: no command line crashes a parser, and what argparse accepts
// has only known names.
func FuzzArguments(f *testing.F) {
	f.Add("--model m --server-port 1 -tp 8 --kv-cache-dtype=fp8")
	f.Add("run -d --name x -e K=V -it --label a=b image sleep infinity")
	f.Add("exec -ieK=V -w/tmp c bash -c x")
	f.Add("--goodput ttft:1 e2el:2 --metadata --num-prompts -3 - -- =")
	f.Fuzz(func(t *testing.T, line string) {
		args := strings.Split(line, " ")
		for _, p := range []*parser{atomServerParser(), atomBenchParser(), vllmServerParser(), vllmBenchParser(), sglangServerParser(), sglangBenchParser()} {
			a, err := p.parse(args)
			if err != nil {
				continue
			}
			for name := range a.given {
				if strings.HasPrefix(name, "-") && p.find(name) == nil {
					t.Errorf("%s took %q", p.prog, name)
				}
			}
		}
		if a, err := parseDocker(args[0], args[1:]); err == nil && len(a.rest) > len(args) {
			t.Errorf("%q: %d arguments out of %d", line, len(a.rest), len(args))
		}
	})
}

// FuzzStream: whatever a server sends, the client neither crashes nor counts a
// stream without choices as a success.
func FuzzStream(f *testing.F) {
	f.Add("data: {\"choices\": [{\"text\": \" a\"}]}\n\ndata: {\"choices\": [], \"usage\": {\"completion_tokens\": 1}}\n\ndata: [DONE]\n\n")
	f.Add("data: {\"choices\": []}\n\ndata: [DONE]")
	f.Add("data: {\n\n")
	f.Fuzz(func(t *testing.T, body string) {
		var m measurement
		err := m.read(strings.NewReader(body))
		if m.ok && (err != nil || !strings.Contains(strings.ToLower(body), "choices")) {
			t.Errorf("%q counted as a success (%v)", body, err)
		}
	})
}
