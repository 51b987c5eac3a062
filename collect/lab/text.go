package lab

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"regexp"
	"strconv"
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

// A generated text is what the simulated model says to a prompt: at temperature
// 0 always the same, so that a probe has a fingerprint.
type generated struct {
	seed  uint64
	fixed []string // tokens of a set reply, nil for words of the vocabulary
	loop  bool     // the same word for ever
}

// A question is what decides an answer.
type question struct {
	prompt     string
	chat, json bool
	variant    uint64 // 0 at temperature 0, else what the answer varies by
	fault      AnswerFault
}

var (
	needlePattern = regexp.MustCompile(`NEEDLE-\w+`)
	sumPattern    = regexp.MustCompile(`What is (\d{1,6}) ([+*-]) (\d{1,6})\?`)
)

// newGenerated chooses the reply. The set replies are those that checks ask any
// instruction-tuned model for: a JSON object, a word, a needle, a sum.
func newGenerated(q question) generated {
	h := fnv.New64a()
	h.Write([]byte(q.prompt))
	g := generated{seed: h.Sum64() + q.variant*0x9e3779b97f4a7c15}
	wrong := q.fault == AnswersWrong
	switch lower := strings.ToLower(q.prompt[:min(len(q.prompt), 4096)]); {
	case q.json || q.chat && strings.Contains(lower, "json object"):
		g.fixed = strings.SplitAfter(`{"title": "Moby-Dick", "author": "Herman Melville", "year": 1851, "genre": "novel"}`, " ")
		if q.fault == AnswersJSON {
			g.fixed = g.fixed[:3]
		}
	case q.chat && strings.Contains(lower, "single word ok"):
		g.fixed = []string{"OK"}
	case q.chat && strings.Contains(q.prompt, "NEEDLE-"):
		needle := needlePattern.FindString(q.prompt)
		if wrong {
			needle = "NEEDLE-WRONG000"
		}
		g.fixed = []string{"The ", "key ", "is ", needle + "."}
	case strings.Contains(q.prompt, "What is "):
		g.fixed = sumAnswer(q.prompt, wrong)
	}
	switch q.fault {
	case AnswersEmpty:
		g.fixed = []string{""}
	case AnswersLoop:
		g.fixed, g.loop = nil, true
	}
	return g
}

// sumAnswer works the last sum of a prompt out in the style of GSM8K answers.
// Like a good model it errs in a few of a hundred, always in the same ones, and
// now and then leaves the form out.
func sumAnswer(prompt string, wrong bool) []string {
	all := sumPattern.FindAllStringSubmatch(prompt, -1)
	if all == nil {
		return nil
	}
	m := all[len(all)-1]
	result := sum(m[1], m[2], m[3])
	h := fnv.New64a()
	h.Write([]byte(m[0]))
	luck := h.Sum64() % 1000
	if wrong || luck < 45 {
		result++
	}
	answer := fmt.Sprintf("%s %s %s = %d. #### %d", m[1], m[2], m[3], result, result)
	if luck >= 990 {
		answer = fmt.Sprintf("It is %d", result)
	}
	tokens := strings.Fields(answer)
	for i := range tokens {
		tokens[i] = " " + tokens[i]
	}
	return tokens
}

func sum(a, op, b string) int {
	x, _ := strconv.Atoi(a) // the pattern lets digits through only
	y, _ := strconv.Atoi(b)
	switch op {
	case "+":
		return x + y
	case "-":
		return x - y
	}
	return x * y
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
	if g.loop {
		return " again"
	}
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
