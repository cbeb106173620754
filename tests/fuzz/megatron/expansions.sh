N=3
A=(a "b c" $N)
A+=(--num-experts 4)
for x in 1 2; do :; done
cat <<EOF
it's
EOF
if [ $N -gt 1 ]; then L=4; fi
srun -N2 bash -c "python t.py --num-layers $((2 * (N - 1))) --hidden-size ${H:-256} --num-attention-heads 4 ${A[@]} \
  --seq-length 128 --micro-batch-size 1 --bf16 --position-embedding-type rope --vocab-size 1000 --moe-layer-freq '([0]*1+[1]*3)' $@"
