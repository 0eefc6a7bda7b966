/* SPDX-License-Identifier: MIT
 *
 * The last part of an instantiation: which table entries this level overrides.
 */

static void simd_fill(vo_kernels *kernels) {
    kernels->add = VO_FN(add);
    kernels->mul = VO_FN(mul);
    kernels->scale = VO_FN(scale);
    kernels->axpy = VO_FN(axpy);
    kernels->gelu = VO_FN(gelu);
    kernels->relu = VO_FN(relu);
    kernels->sigmoid = VO_FN(sigmoid);
    kernels->tanh = VO_FN(tanh);
    kernels->sqrt = VO_FN(sqrt);
    kernels->exp = VO_FN(exp);
    kernels->f16_to_f32 = VO_FN(f16_to_f32);
    kernels->f32_to_f16 = VO_FN(f32_to_f16);
    kernels->f32_to_s8 = VO_FN(f32_to_s8);
    kernels->layer_norm = VO_FN(layer_norm);
    kernels->softmax = VO_FN(softmax);
    kernels->epilogue = VO_FN(epilogue);
    kernels->stft400_power = VO_FN(stft400_power);
}
