#!/bin/bash
# Qwen3-30B-A3B on four nodes, in the style of Megatron's examples (written for these tests).
#SBATCH --nodes=4
export CUDA_DEVICE_MAX_CONNECTIONS=1
GPUS_PER_NODE=8
NNODES=${NNODES:-4}
WORLD_SIZE=$(($GPUS_PER_NODE*$NNODES))
TP=1
PP=2
SEQ="4096"

DISTRIBUTED_ARGS=(
    --nproc_per_node $GPUS_PER_NODE   # eight
    --nnodes "$NNODES"
    --master_addr $MASTER_ADDR
)

MODEL_ARGS=(
    --num-layers 48 --hidden-size 2048 --ffn-hidden-size 6144
    --num-attention-heads 32 --group-query-attention --num-query-groups 4 --kv-channels 128
    --qk-layernorm --swiglu --normalization RMSNorm --disable-bias-linear
    --position-embedding-type rope --max-position-embeddings 40960
    --untie-embeddings-and-output-weights --vocab-size 151936
)

MOE_ARGS="--num-experts 128 \
  --moe-router-topk 8 --moe-ffn-hidden-size 768 \
  --moe-token-dispatcher-type alltoall --moe-grouped-gemm"

PARALLEL="--tensor-model-parallel-size ${TP} --pipeline-model-parallel-size=${PP} --expert-model-parallel-size 8"

torchrun ${DISTRIBUTED_ARGS[@]} pretrain_gpt.py \
    ${MODEL_ARGS[@]} \
    $MOE_ARGS ${PARALLEL} \
    --num-layers-per-virtual-pipeline-stage 12 \
    --micro-batch-size 1 --global-batch-size 256 --seq-length $SEQ --train-iters 500 \
    --bf16 --use-distributed-optimizer --overlap-grad-reduce \
    --recompute-granularity selective --recompute-modules moe_act layernorm \
    --lr 1.0e-4 --save "$CHECKPOINTS/run" --log-interval 1 \
    --strange-option 4 \
    "$@" 2>&1 | tee log.txt
