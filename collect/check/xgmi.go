package check

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// linkTitle opens the table that amd-smi xgmi prints.
const linkTitle = "LINK METRIC TABLE:"

// parseLinks reads the table of amd-smi xgmi: a row per GPU, and below it what was
// read from and written to each peer, named by PCI address.
func parseLinks(text string) ([]SMIFields, error) {
	var out []SMIFields
	var peers []string
	for _, line := range strings.Split(text, "\n") {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		n, isGPU := strings.CutPrefix(words[0], "GPU")
		switch {
		case words[0] == "bdf":
			peers = pciAddress.FindAllString(line, maxGPUs)
		case isGPU && len(words) == 7:
			gpu, err := strconv.Atoi(n)
			if err != nil || gpu < 0 || gpu >= maxGPUs || len(out) == maxGPUs {
				return nil, fmt.Errorf("amd-smi: %q is no GPU", clip(words[0], 40))
			}
			out = append(out, SMIFields{GPU: gpu, Values: map[string]string{"xgmi.bdf": words[1],
				"xgmi.bit_rate": words[2] + " " + words[3], "xgmi.max_bandwidth": words[4] + " " + words[5], "xgmi.link_type": words[6]}})
		case (words[0] == "Read" || words[0] == "Write") && len(out) > 0:
			values := row(words[1:], len(peers))
			for i, v := range values {
				out[len(out)-1].Values["xgmi."+strings.ToLower(words[0])+"."+peers[i]] = v
			}
		}
	}
	if len(out) == 0 {
		return nil, errors.New("amd-smi: it lists no GPU")
	}
	return out, nil
}

// row joins words to at most n values: each with its unit, where one follows.
func row(words []string, n int) []string {
	var out []string
	for at := 0; at < len(words) && len(out) < n; {
		value := words[at]
		at++
		if at < len(words) && !startsValue(words[at]) {
			value += " " + words[at]
			at++
		}
		out = append(out, value)
	}
	return out
}
