package lab

import (
	"encoding/json"
	"hash/fnv"
	"strings"
)

// The simulated tokenizer takes every word as one token. So the load generator
// can make a prompt of exactly the length it wants, and both sides count alike.
func countTokens(s string) int { return len(strings.Fields(s)) }

var vocabulary = strings.Fields(`the of and to in is that it for was on are as with his they be at one have this from or had by hot but some what there
we can out other were all your when up use word how said an each she which do their time if will way about many then them would write like so these her
long make thing see him two has look more day could go come did my sound no most number who over know water than call first people may down side been now
find any new work part take get place made live where after back little only round man year came show every good me give our under name very through just
form much great think say help low line before turn cause same mean differ move right boy old too does tell sentence set three want air well also play small
end put home read hand port large spell add even land here must big high such follow act why ask men change went light kind off need house picture try us`)

// A generated text is what the simulated model says to a prompt: always the
// same, so that a probe at temperature 0 has a fingerprint.
type generated struct {
	seed  uint64
	fixed []string // tokens of a set reply, nil for words of the vocabulary
}

// newGenerated chooses the reply. The two set replies are those a functional
// check can ask any instruction-tuned model for.
func newGenerated(prompt string, chat, wantJSON bool) generated {
	h := fnv.New64a()
	h.Write([]byte(prompt))
	g := generated{seed: h.Sum64()}
	switch lower := strings.ToLower(prompt); {
	case wantJSON || chat && strings.Contains(lower, "json object"):
		g.fixed = strings.SplitAfter(`{"title": "Moby-Dick", "author": "Herman Melville", "year": 1851, "genre": "novel"}`, " ")
	case chat && strings.Contains(lower, "single word ok"):
		g.fixed = []string{"OK"}
	}
	return g
}

// naturalLength is where the model would end by itself, in tokens.
func (g generated) naturalLength() int {
	if g.fixed != nil {
		return len(g.fixed)
	}
	return 16 + int(g.seed%64)
}

// token is the i-th token, a word with a space before it.
func (g generated) token(i int) string {
	if i < len(g.fixed) {
		return g.fixed[i]
	}
	x := g.seed + uint64(i)*0x9e3779b97f4a7c15 // splitmix64, a hash of seed and position
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return " " + vocabulary[(x^x>>31)%uint64(len(vocabulary))]
}

// appendJSONText appends s as the inside of a JSON string.
func appendJSONText(b []byte, s string) []byte {
	if !strings.ContainsAny(s, "\"\\\n\r\t") {
		return append(b, s...)
	}
	q, err := json.Marshal(s)
	if err != nil {
		return b // a string always marshals
	}
	return append(b, q[1:len(q)-1]...)
}
