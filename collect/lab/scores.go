package lab

import (
	"hash/fnv"
	"regexp"
	"strings"
)

// scores are the log-probabilities of a completion with echo. ATOM has none.
type scores struct {
	Tokens   []string             `json:"tokens"`
	Logprobs []*float64           `json:"token_logprobs"` // null for the first
	Top      []map[string]float64 `json:"top_logprobs"`
	Offsets  []int                `json:"text_offset"`
}

var scoredSum = regexp.MustCompile(`What is (\d{1,6}) ([+*-]) (\d{1,6})\? (\d+)(?:\s|$)`)

// score finds words likely by chance, and the answer of a sum by its truth; it
// errs where the model would.
func score(text string) *scores {
	s := &scores{}
	var right, wrong string
	if all := scoredSum.FindAllStringSubmatch(text, -1); all != nil {
		m := all[len(all)-1]
		want := itoa(sum(m[1], m[2], m[3]))
		if said := sumAnswer(strings.TrimSuffix(m[0], m[4]), false); said != nil {
			want = strings.TrimSpace(said[len(said)-1])
		}
		if m[4] == want {
			right = m[4]
		} else {
			wrong = m[4]
		}
	}
	at := 0
	for i, w := range strings.Fields(text) {
		at += max(0, strings.Index(text[at:], w))
		h := fnv.New64a()
		h.Write([]byte(w))
		p := -1 - float64(h.Sum64()%1000)/500
		switch w {
		case right:
			p = -0.05
		case wrong:
			p = -6
		}
		s.Tokens, s.Offsets = append(s.Tokens, w), append(s.Offsets, at)
		s.Top = append(s.Top, map[string]float64{w: p})
		if i == 0 {
			s.Logprobs = append(s.Logprobs, nil)
		} else {
			s.Logprobs = append(s.Logprobs, &p)
		}
		at += len(w)
	}
	return s
}
