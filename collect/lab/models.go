package lab

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/renameio/v2"
)

// A labModel is a model that every node has, with weights of a few bytes.
type labModel struct {
	id, architecture, kind string
	context, shards        int
}

// labModels are the demo's and those of the shipped configs.
var labModels = []labModel{
	{DemoModel, "SimForCausalLM", "sim", defaultModelLen, 2},
	{"deepseek-ai/DeepSeek-R1-0528", "DeepseekV3ForCausalLM", "deepseek_v3", 163840, 163},
	{"openai/gpt-oss-120b", "GptOssForCausalLM", "gpt_oss", 131072, 15},
	{"amd/Qwen3.5-397B-A17B-FP8", "Qwen3_5MoeForConditionalGeneration", "qwen3_5_moe", 262144, 94},
}

// TokenFile is the path of a file that holds what looks like a Hugging Face token.
func (l *Lab) TokenFile() string { return filepath.Join(l.sharedDir(), ".hf_token") }

// ModelsDir is the folder with the models as the Hugging Face cache lays them
// out; isolated nodes have it at /models, too.
func (l *Lab) ModelsDir() string { return l.modelsDir() }

func (l *Lab) writeModels() error {
	if err := renameio.WriteFile(l.TokenFile(), []byte("hf_lab_not_a_secret\n"), 0o600); err != nil {
		return fmt.Errorf("writing the token file: %w", err)
	}
	for _, m := range labModels {
		if _, err := m.write(l.modelsDir()); err != nil {
			return fmt.Errorf("laying out model %s: %w", m.id, err)
		}
	}
	return nil
}

// write lays the model out as the Hugging Face cache does and returns its
// snapshot's folder.
func (m labModel) write(models string) (string, error) {
	root := filepath.Join(models, "models--"+strings.ReplaceAll(m.id, "/", "--"))
	commit := hash(m.id)[:40]
	dir := filepath.Join(root, "snapshots", commit)
	for _, d := range []string{dir, filepath.Join(root, "refs"), filepath.Join(root, "blobs")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return "", err
		}
	}
	if err := renameio.WriteFile(filepath.Join(root, "refs", "main"), []byte(commit), 0o600); err != nil {
		return "", err
	}
	const weight = 64 // bytes of a shard
	weights := map[string]string{}
	for i := range m.shards {
		name := fmt.Sprintf("model-%05d-of-%05d.safetensors", i+1, m.shards)
		tensor := fmt.Sprintf("model.layers.%d.weight", i)
		switch i {
		case 0:
			tensor = "model.embed_tokens.weight"
		case m.shards - 1:
			tensor = "lm_head.weight"
		}
		weights[tensor] = name
		if err := os.WriteFile(filepath.Join(dir, name), bytes.Repeat([]byte{0}, weight), 0o600); err != nil {
			return "", err
		}
	}
	files := map[string]any{
		"config.json": struct {
			Architectures []string `json:"architectures"`
			ModelType     string   `json:"model_type"`
			MaxPosition   int      `json:"max_position_embeddings"`
		}{[]string{m.architecture}, m.kind, m.context},
		"model.safetensors.index.json": struct {
			Metadata map[string]int    `json:"metadata"`
			Map      map[string]string `json:"weight_map"`
		}{map[string]int{"total_size": m.shards * weight}, weights},
	}
	for name, v := range files {
		if err := writeJSON(filepath.Join(dir, name), v); err != nil {
			return "", err
		}
	}
	return dir, nil
}
